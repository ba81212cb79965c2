import Countdowns
import Testing

@Suite struct OnceTests {
  private let start = Instant(microseconds: 7)

  @Test func aRequestRunsUntilItIsDoneAndTheFirstResultStays() {
    var once = Once(for: .seconds(60), at: start)
    #expect(once.phase == .running)
    #expect(once.finish([1]) == true)
    #expect(once.phase == .done(result: [1]))
    #expect(once.finish([2]) == false)
    #expect(once.phase == .done(result: [1]))
  }

  @Test func ttlCountsFromTheFirstRequestAndDONEDoesNotProlongIt() {
    var once = Once(for: .seconds(60), at: start)
    #expect(once.deadline == start + .seconds(60))
    _ = once.finish([])
    #expect(once.deadline == start + .seconds(60))
    #expect(once.remainingTime(at: start + .seconds(59)) == .seconds(1))
    #expect(once.remainingTime(at: start + .seconds(61)) == .zero)
    #expect(Once(.done(result: []), until: once.deadline) == once)
  }
}
