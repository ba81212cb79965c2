// A countdown button as in an app, whose timer does not keep it alive.
//
//     swift run weak-timers
//
// With an NSTimer, the run loop holds the timer, which holds the button, so a button that has left
// the screen counts on forever. Here the timer holds its target weakly, and ends with it.

import DispatchTimers
import Synchronization

final class CountdownButton: Sendable {
  let name: String
  private let left = Mutex(5)
  private let ticking = Mutex<TimerHandle?>(nil)

  init(name: String) { self.name = name }
  deinit { print("\(name): gone, and nothing had to be torn down") }

  func start(_ timers: TimerQueue) {
    let handle = timers.schedule(
      after: .milliseconds(200), repeating: .milliseconds(200), target: self
    ) { (button: CountdownButton, firing) in
      // After a sleep of the machine there is one call for all ticks.
      button.tick(1 + firing.missed)
    }
    ticking.withLock { $0 = handle }
  }

  private func tick(_ steps: Int) {
    let now = left.withLock { left in
      left = max(0, left - steps)
      return left
    }
    print("\(name): \(now) left")
    if now == 0 { ticking.withLock { $0 = nil } }
  }
}

let timers = TimerQueue()

// Only the screen that shows the button holds it.
var button: CountdownButton? = CountdownButton(name: "button")
button?.start(timers)

try await Task.sleep(for: .milliseconds(700))
print("the screen goes away; timers pending: \(timers.count)")
button = nil
try await Task.sleep(for: .milliseconds(300))
print("timers pending: \(timers.count)")

// A timer without a target lives as long as its handle.
do {
  let once = timers.schedule(after: .milliseconds(100)) { print("never printed") }
  print("armed: \(once.isPending)")
}
try await Task.sleep(for: .milliseconds(200))
print("the handle went, and the timer with it; timers pending: \(timers.count)")

// A timer at a time of day, here the next full second. It follows changes of the clock.
let full = WallTime(since1970: .seconds(WallTime.now.since1970.components.seconds + 1))
timers.schedule(at: full) { print("a second begins") }.detach()
try await Task.sleep(for: .milliseconds(1_200))

// A timer as a sequence, which ends with its task.
var count = 0
for await tick in timers.ticks(every: .milliseconds(100)) {
  count += 1 + tick.missed
  print("tick \(count)")
  if count >= 3 { break }
}
