import Testing

@testable import Countdowns

@Suite struct ServerClockTests {
  /// The host is stopped between its question and the answer. The server's clock is read at once,
  /// and runs 100 parts per million faster or slower.
  @Test(arguments: [-100, 100]) func clocksDriftWhileAnAnswerIsAwaited(drift: Int64) throws {
    let (start, sent, received) = (
      1_790_000_000_000_000 as Int64, 5_000_000 as Int64, 15_000_000 as Int64
    )
    var clock = ServerClock(maximumSkew: .milliseconds(200))
    clock.note(start, sent: sent, received: received)
    let truth = start + (received - sent) + 10 * drift
    let (earliest, latest) = (clock.now(at: received), clock.latest(at: received))
    #expect(try #require(earliest) <= truth)
    #expect(try #require(latest) >= truth)
  }
}
