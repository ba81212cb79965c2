import DispatchTimers
import DispatchTimersTesting

@MainActor final class CountdownButton {
  private(set) var title = "Send code"
  private var left = 0
  private var ticking: TimerHandle?

  func start(_ timers: TimerQueue, seconds: Int) {
    left = seconds
    ticking = timers.schedule(after: .seconds(1), repeating: .seconds(1), mainActor: self) {
      button, firing in
      button.tick(1 + firing.missed)
    }
  }

  private func tick(_ seconds: Int) {
    left = max(0, left - seconds)
    title = left > 0 ? "\(left)s to go" : "Send again"
    if left == 0 { ticking = nil }
  }
}
let clock = TestClock()
let timers = TimerQueue(clock: clock)
let button = CountdownButton()
button.start(timers, seconds: 60)
await clock.advance(by: .seconds(59))
print(button.title, clock.pending)
await clock.advance(by: .seconds(1))
print(button.title, clock.pending)
