import Dispatch
import DispatchTimers

/// A clock that stands still until a test sets it, as nobody may set the machine's.
///
/// What it does to a timer when it is set is what the kernel does to a `timerfd` of
/// `CLOCK_REALTIME`: the timer fires if its moment has come.
final class SettableClock: Sendable {
  /// `@unchecked`: a dispatch source may be set from any thread, but its protocol does not say so.
  private struct Armed: @unchecked Sendable {
    let timer: any DispatchSourceTimer
    let deadline: UInt64
  }

  private struct State {
    var now: UInt64
    var armed: Armed?

    func fireWhatIsDue() {
      if let armed, armed.deadline <= now {
        armed.timer.schedule(deadline: .now(), leeway: .nanoseconds(0))
      }
    }
  }

  private let state: Lock<State>

  /// - Parameter now: in microseconds since 1970, as everywhere here.
  init(at now: UInt64) { state = Lock(State(now: now)) }

  var now: UInt64 { state.withLock { $0.now } }

  func set(to now: UInt64) {
    state.withLock { state in
      state.now = now
      state.fireWhatIsDue()
    }
  }

  /// For one alarm.
  var alarmClock: AlarmClock {
    AlarmClock(
      read: { self.now * 1_000 },
      setTimer: { timer, deadline in
        let armed = deadline.map { Armed(timer: timer, deadline: $0) }
        self.state.withLock { state in
          state.armed = armed
          state.fireWhatIsDue()
        }
      })
  }
}
