import DispatchTimers
import Testing

@Suite struct WallTimeTests {
  @Test func secondsSince1970AreExactWholeOnesToTheAttosecond() {
    #expect(WallTime(secondsSince1970: 0).since1970 == .zero)
    #expect(WallTime(secondsSince1970: 1_790_000_000).since1970 == .seconds(1_790_000_000))
    #expect(
      WallTime(secondsSince1970: 1_790_000_000.25).since1970
        == .seconds(1_790_000_000) + .milliseconds(250))
    #expect(WallTime(secondsSince1970: -0.5).since1970 == .milliseconds(-500))
    #expect(WallTime(secondsSince1970: -1e-20).since1970 == .zero)
    // Foundation's Date.distantFuture.
    #expect(WallTime(secondsSince1970: 64_092_211_200).since1970 == .seconds(64_092_211_200))
  }

  @Test(arguments: ["nan", "inf", "-inf", "1e30"])
  func naNInfinityAndSecondsOutOfRangeAreRefused(text: String) async {
    await #expect(processExitsWith: .failure) { [text] in
      // As text, because the process is told in JSON, which does not know these numbers.
      if let seconds = Double(text) { _ = WallTime(secondsSince1970: seconds) }
    }
  }

  @Test func wallTimeIsAnInstantProtocolLikeThoseOfSwiftsClocks() {
    let time = WallTime(secondsSince1970: 100)
    let later = time.advanced(by: .nanoseconds(1))
    #expect(time < later && later > time && time != later)
    #expect(time.duration(to: later) == .nanoseconds(1))
    #expect(later.duration(to: time) == .nanoseconds(-1))
    #expect(later.since1970 == .seconds(100) + .nanoseconds(1))
  }

  @Test func nowIsWhatTheSystemsClockShows() {
    let before = WallClock.nanoseconds
    let now = WallTime.now
    let after = WallClock.nanoseconds
    #expect(now.since1970 >= .nanoseconds(Int64(before)))
    #expect(now.since1970 <= .nanoseconds(Int64(after)))
  }
}
