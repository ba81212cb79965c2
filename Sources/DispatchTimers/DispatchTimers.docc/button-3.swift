import DispatchTimers
import DispatchTimersTesting

@MainActor final class CountdownButton {
  var title = "Send the code"
  private let timers: TimerQueue
  private var secondsLeft = 0
  private var handle: TimerHandle?

  init(_ timers: TimerQueue) { self.timers = timers }

  func tap() {
    secondsLeft = 60
    title = "60 s"
    handle = timers.schedule(after: .seconds(1), repeating: .seconds(1), mainActor: self) {
      button, _ in
      button.count()
    }
  }

  private func count() {
    secondsLeft -= 1
    title = secondsLeft > 0 ? "\(secondsLeft) s" : "Send the code"
    if secondsLeft == 0 { handle = nil }
  }
}

@MainActor func testThatItCountsDown() async {
  let clock = TestClock()
  let button = CountdownButton(TimerQueue(clock: clock))
  button.tap()
  await clock.advance(by: .seconds(1))
  assert(button.title == "59 s")
  await clock.advance(by: .seconds(59))
  assert(button.title == "Send the code" && clock.pending.isEmpty)
}
