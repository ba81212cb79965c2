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

  /// As after a failover: the first answer of a server waits for two seconds, the next ones do not.
  @Test func aLateAnswerDoesNotMakeTheClockSeemSet() {
    let start: Int64 = 1_790_000_000_000_000
    var clock = ServerClock(maximumSkew: .milliseconds(500))
    clock.note(start, sent: 0, received: 2_000_000)
    clock.note(start + 2_001_000, sent: 2_000_500, received: 2_001_500)
    #expect(!clock.isTooFarAhead)
    clock.note(start + 3_000_000, sent: 2_400_000, received: 2_401_000)
    #expect(clock.isTooFarAhead)
  }
}
