import Countdowns
import DispatchTimers

/// Reads both clocks of the machine at one moment. Not thread-safe.
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
    return Moment(boot: Instant(microseconds: boot), wall: Instant(microseconds: wall))
  }
}
