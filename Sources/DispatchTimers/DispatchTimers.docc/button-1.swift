import DispatchTimers

@MainActor final class CountdownButton {
  var title = "Send the code"
  private let timers: TimerQueue

  init(_ timers: TimerQueue) { self.timers = timers }
}
