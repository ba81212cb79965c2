import Countdowns
import Testing

/// How many failed sends of a key are given back.
@Suite struct RefundBoundTests {
  let desk = Desk()

  /// twofactor-email-212: failed sends cost nothing, however many they were
  @Test func aWindowBoundsHowManySendsAreGivenBack() throws {
    let policy = SendPolicy.test(count: 60, refunds: (2, 100_000))
    var sent = Generation(0)
    for (moment, left) in [(0, 1), (10_000, 0)] as [(Int64, Int64)] {
      sent = try desk.at(moment).start("a", policy: policy).view.generation
      let (isFirst, view) = try desk.refund("a", sent)
      #expect(isFirst && view.quota?.refundsLeft == left && view.state == .ready)
      // Repeating it takes none.
      #expect(try desk.refund("a", sent).view.quota?.refundsLeft == left)
    }
    sent = try desk.at(20_000).start("a", policy: policy).view.generation
    let before = desk.get("a")
    let (refund, view) = try desk.with("a") {
      try desk.engine.refundCountdown($0, generation: sent, at: desk.now)
    }
    #expect(refund == .refused && view == before && view.state == .counting)
    // Once the oldest has left the window, the same send is given back.
    #expect(try !desk.at(99_999).refund("a", sent).isFirst)
    #expect(try desk.at(100_000).refund("a", sent).isFirst)
  }

  @Test func aKeyIsKnownForItsRefundsUntilTheyHaveLeftTheirWindow() throws {
    let policy = SendPolicy.test(count: 1, refunds: (1, 2_000_000))
    let sent = try desk.at(0).start("a", policy: policy).view.generation
    #expect(try desk.refund("a", sent).isFirst)
    try desk.at(1_000_000).start("a", policy: policy)
    try desk.cancel("a")
    let second = try desk.at(1_999_999).start("a", policy: policy).view.generation
    #expect(try !desk.refund("a", second).isFirst)
    try desk.cancel("a")
    desk.at(2_000_000)
    desk.expectEmpty()
  }
}
