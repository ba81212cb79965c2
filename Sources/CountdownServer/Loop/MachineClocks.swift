import Countdowns
import DispatchTimers

/// Reads both clocks of the machine at one moment, and notices that the machine was suspended. Not
/// thread-safe.
///
/// A thread that has to wait for a core between the two readings would show all deadlines that much
/// later on the wall clock. So when the clocks seem to have moved against each other, they are read
/// again, until that takes less than `tolerance`.
final class MachineClocks {
  /// In microseconds.
  private static let tolerance: Int64 = 500
  private static let maximumReadings = 8

  /// How far the wall clock is ahead of the boot clock, as last read.
  private var ahead: Int64 = 0
  /// The boot clock as last read.
  private var last = Instant.zero
  /// How long the machine has been suspended since boot, at the most.
  private var asleep = Int64.max
  /// Reading the clocks for a suspend takes longer, so a shorter time is not looked at.
  private static let shortestSuspend = Interval.milliseconds(10)
  /// Called with the times of the boot clock before and after a suspend of the machine.
  var wasSuspended: ((Instant, Instant) -> Void)?

  var now: Moment {
    var boot = Int64(BootClock.now)
    var wall = Int64(WallClock.now)
    if abs(wall - boot - ahead) > Self.tolerance {
      for _ in 1..<Self.maximumReadings {
        let after = Int64(BootClock.now)
        if after - boot < Self.tolerance { break }
        boot = after
        wall = Int64(WallClock.now)
      }
      ahead = wall - boot
    }
    let now = Moment(boot: Instant(microseconds: boot), wall: Instant(microseconds: wall))
    if now.boot - last >= Self.shortestSuspend { noticeSuspend(before: now.boot) }
    last = now.boot
    return now
  }

  /// Compares the boot clock, which runs during a suspend, with the one that does not.
  private func noticeSuspend(before now: Instant) {
    // The machine has slept as long as the clocks differ: at least by what is read before, and at
    // most by what is read after.
    let before = Int64(UptimeClock.nanoseconds / 1_000)
    let boot = Int64(BootClock.now)
    let after = Int64(UptimeClock.nanoseconds / 1_000)
    defer { asleep = min(asleep, boot - before) }
    guard asleep < .max, boot - after > asleep + Self.shortestSuspend.microseconds else { return }
    asleep = .max
    wasSuspended?(last, now)
  }
}
