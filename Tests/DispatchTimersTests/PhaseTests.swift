import DispatchTimers
import Testing

/// The arithmetic of deadlines, without any clock.
@Suite struct PhaseTests {
  @Test func durationsRoundUpToAMicrosecondFromTheNanosecondTheyAreCountedFrom() {
    let nanosecond = Duration.nanoseconds(1)
    #expect(Duration.zero.microseconds(after: 0) == 0)
    #expect(Duration.zero.microseconds(after: 1) == 1)
    #expect(Duration.zero.microseconds(after: 1_000) == 1)
    #expect(nanosecond.microseconds(after: 1_000) == 2)
    #expect(nanosecond.microseconds(after: 1_999) == 2)
    #expect(nanosecond.microseconds(after: 2_000) == 3)
    #expect(Duration.microseconds(5).microseconds(after: 999) == 6)
    #expect(Duration(secondsComponent: 0, attosecondsComponent: 1).microsecondsRoundedUp == 1)
    #expect(
      Duration(secondsComponent: 7, attosecondsComponent: 1).microsecondsRoundedUp == 7_000_001)
    #expect(Duration.milliseconds(-3).microseconds(after: 5_000) == 5)
  }

  /// libuv-4773: a deadline is not early by what the clock's microsecond leaves out
  @Test func deadlinesAreNotEarly() {
    for delay in 0..<2_000 as Range<UInt64> {
      let start = BootClock.nanoseconds
      let deadline = AlarmClock.boot.deadline(after: .nanoseconds(Int64(delay)))
      #expect(deadline * 1_000 >= start + delay)
    }
  }

  @Test func aDeadlineTooFarToRepresentIsNeverDue() {
    let longest = Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999)
    #expect(longest.microsecondsRoundedUp == .max)
    #expect(longest.microseconds(after: 1 << 62) == .max)
    let centuries = Duration.seconds(1 << 40)
    #expect(centuries.microsecondsRoundedUp == (1 << 40) * 1_000_000)
  }

  @Test func aLatePeriodReportsItsLatenessAndThePhaseStays() {
    var phase = Phase(deadline: 1_000, interval: 10)
    func expect(at now: UInt64, lateness: Int, missed: Int, deadline: UInt64) {
      let firing = phase.fire(at: now)
      #expect(firing.lateness == .microseconds(lateness))
      #expect(firing.missed == missed && firing.deadline == deadline)
    }
    expect(at: 1_000, lateness: 0, missed: 0, deadline: 1_000)
    expect(at: 1_019, lateness: 9, missed: 0, deadline: 1_010)
    expect(at: 1_057, lateness: 37, missed: 3, deadline: 1_020)
    #expect(phase.deadline == 1_060)
  }

  @Test func aPeriodLateByExactlyItsLengthIsMissedAndTheNextDeadlineLiesAhead() {
    var phase = Phase(deadline: 100, interval: 10)
    #expect(phase.fire(at: 120).missed == 2)
    #expect(phase.deadline == 130)
  }

  /// tokio-5536: the last periods before the end of time do not overflow
  @Test func overflows() {
    var phase = Phase(deadline: .max - 5, interval: 10)
    #expect(phase.fire(at: .max - 1).missed == 0)
    #expect(phase.deadline == .max)
    var long = Phase(deadline: 100, interval: .max)
    #expect(long.fire(at: 1_000).missed == 0)
    #expect(long.deadline == .max)
    var once = Phase(deadline: 100, interval: 0)
    #expect(once.fire(at: .max).missed == 0)
  }
}
