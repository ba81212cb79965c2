import Countdowns
import Dispatch
import DispatchTimers

/// What wakes the loop: an alarm for each clock, steps of the wall clock, and the watchdog.
final class Alarms {
  private let queue = DispatchQueue(label: "countdownd.alarm")
  private let boot: DispatchAlarm
  private let wall: DispatchAlarm
  /// Nil without a store, which alone needs to know of steps.
  private var wallClockSteps: WallClockSteps?
  /// When the next heartbeat goes to the service manager; nil without a watchdog.
  private var heartbeat: Instant?

  init() {
    boot = DispatchAlarm(clock: .boot, queue: queue)
    wall = DispatchAlarm(clock: .wall, queue: queue)
  }

  /// - Parameter wake: called on the queue of the alarms when anything is due.
  func open(noticesSteps: Bool, wake: @escaping @Sendable () -> Void) {
    boot.setHandler { wake() }
    wall.setHandler { wake() }
    // If this is nil, the next batch notices a step of the clock, within a minute.
    if noticesSteps { wallClockSteps = WallClockSteps(queue: queue, wake) }
  }

  func armWall(at deadline: Instant) { wall.arm(at: deadline.tick) }

  /// A spurious wake-up is cheaper than re-arming each time the earliest is cancelled.
  func arm(noLaterThan deadline: Instant) { boot.arm(noLaterThan: deadline.tick) }

  /// Returns whether a heartbeat is due, and arms the next one.
  ///
  /// - Parameter interval: the longest time between two heartbeats in microseconds; nil for none.
  func isHeartbeatDue(every interval: Int64?) -> Bool {
    guard let interval else { return false }
    let now = Instant(microseconds: Int64(BootClock.now))
    let isDue = heartbeat.map { now >= $0 } ?? false
    if isDue || heartbeat == nil { heartbeat = now + Interval(microseconds: interval / 2) }
    if let heartbeat { arm(noLaterThan: heartbeat) }
    return isDue
  }

  func disarm() {
    boot.disarm()
    wall.disarm()
  }
}
