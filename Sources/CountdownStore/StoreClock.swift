/// The clock of stored deadlines, which continues across reboots.
///
/// Within a boot it runs at a fixed offset from the boot clock, so that setting the wall clock
/// moves nothing. From one boot to the next it advances as much as the wall clock. So a stored
/// deadline always keeps its meaning, and no row has to be rewritten after a reboot. The store
/// clock begins at the wall clock's time; later steps of the wall clock make them differ.
///
/// All times are in microseconds.
package struct StoreClock: Equatable, Sendable {
  /// The clocks of the machine at one moment.
  package struct Reading: Equatable, Sendable {
    /// The ID of the boot, from /proc/sys/kernel/random/boot_id but without dashes, or
    /// `unknownBoot`.
    package var bootID: String
    package var bootMicroseconds: Int64
    /// The wall clock's time since 1970.
    package var wallMicroseconds: Int64

    /// The boot ID where the system provides none.
    package static let unknownBoot = "unknown"
    /// How far two estimates of when the boot began may differ and still mean the same boot.
    private static let agreement: Int64 = 1_000_000

    package init(bootID: String, bootMicroseconds: Int64, wallMicroseconds: Int64) {
      let hasDashes = bootID.utf8.contains(UInt8(ascii: "-"))
      self.bootID = hasDashes ? bootID.filter { $0 != "-" } : bootID
      self.bootMicroseconds = bootMicroseconds
      self.wallMicroseconds = wallMicroseconds
    }

    /// When this boot began, on the wall clock.
    private var began: Int64 { wallMicroseconds - bootMicroseconds }

    /// Returns whether a later reading is from the same boot, which makes boot times comparable.
    func isOfSameBoot(as later: Reading) -> Bool {
      // The ID is not enough: another time namespace has another boot clock.
      guard bootMicroseconds <= later.bootMicroseconds else { return false }
      guard bootID != Self.unknownBoot, later.bootID != Self.unknownBoot else {
        // No two boots begin in the same second; if they did, their boot clocks would agree.
        return abs(later.began - began) <= Self.agreement
      }
      return bootID == later.bootID
    }
  }

  /// The clocks when they were last stored.
  struct Saved: Equatable {
    var reading: Reading
    var offset: Int64
  }

  /// How far the wall clock may step before the clocks are stored again: the accuracy that a
  /// countdown may lose in a reboot.
  static let tolerance: Int64 = 10_000
  /// The longest time before the clocks are stored again: the most that the store clock falls back
  /// if a reboot loses the wall clock.
  static let interval: Int64 = 60_000_000

  /// How far the store clock is ahead of this boot's boot clock.
  package let offset: Int64
  private(set) var saved: Saved
  /// Whether time is virtual. It continues exactly where it stopped, so each step of it is stored.
  private let isVirtual: Bool

  /// - Parameter saved: nil for a new store.
  init(continuing saved: Saved?, at now: Reading, isVirtual: Bool = false) {
    self.isVirtual = isVirtual
    if let saved {
      if saved.reading.isOfSameBoot(as: now) {
        offset = saved.offset
      } else {
        // A wall clock that was set back meanwhile must not postpone stored deadlines.
        let away = max(now.wallMicroseconds - saved.reading.wallMicroseconds, 0)
        offset = saved.reading.bootMicroseconds + saved.offset + away - now.bootMicroseconds
      }
    } else {
      offset = now.wallMicroseconds - now.bootMicroseconds
    }
    self.saved = Saved(reading: now, offset: offset)
  }

  /// The clocks when they were last stored.
  package var reading: Reading { saved.reading }

  /// Returns whether the clocks have to be stored again.
  package func isOutdated(at now: Reading) -> Bool {
    if isVirtual { return now != saved.reading }
    let old = saved.reading
    let away = now.bootMicroseconds - old.bootMicroseconds
    let step = now.wallMicroseconds - old.wallMicroseconds - away
    return away >= Self.interval || abs(step) > Self.tolerance
  }

  /// When, on the boot clock, the clocks must be stored again even if nobody sets the wall clock.
  package var outdatedAt: Int64 { saved.reading.bootMicroseconds + Self.interval }

  /// Records that a reading was stored.
  package mutating func note(_ now: Reading) { saved.reading = now }
}
