/// The clock that stored deadlines are on: it continues over reboots.
///
/// Within a boot it runs with the boot clock, at a fixed distance from it, so that setting the
/// wall clock moves nothing. From one boot to the next it advances by as much as the wall clock
/// did. So a stored deadline keeps its meaning for good, and no row has to be rewritten after a
/// reboot. It begins at the wall clock's time; later steps of the wall clock set them apart.
///
/// All times are in microseconds.
package struct StoreClock: Equatable, Sendable {
  /// The clocks of the machine at one moment.
  package struct Reading: Equatable, Sendable {
    /// Names the boot, as /proc/sys/kernel/random/boot_id does, but without the dashes; or
    /// `unknownBoot`.
    package let bootID: String
    package var bootMicroseconds: Int64
    /// Since 1970.
    package var wallMicroseconds: Int64

    /// Where nobody says which boot it is.
    package static let unknownBoot = "unknown"
    /// What the clocks of one boot may be set apart by, and still count as never having been set.
    private static let agreement: Int64 = 1_000_000

    package init(bootID: String, bootMicroseconds: Int64, wallMicroseconds: Int64) {
      let hasDashes = bootID.utf8.contains(UInt8(ascii: "-"))
      self.bootID = hasDashes ? bootID.filter { $0 != "-" } : bootID
      self.bootMicroseconds = bootMicroseconds
      self.wallMicroseconds = wallMicroseconds
    }

    /// When this boot began, by the clock on the wall.
    private var began: Int64 { wallMicroseconds - bootMicroseconds }

    /// Whether a later reading is of the same boot, so that the boot clock says what has passed.
    func isOfSameBoot(as later: Reading) -> Bool {
      // The id is not enough: in another time namespace the clock is another.
      guard bootMicroseconds <= later.bootMicroseconds else { return false }
      guard bootID != Self.unknownBoot, later.bootID != Self.unknownBoot else {
        // No two boots begin in the same second; and if they did, both clocks would say the same.
        return abs(later.began - began) <= Self.agreement
      }
      return bootID == later.bootID
    }
  }

  /// How the clocks stood when that was last written down.
  struct Saved: Equatable {
    var reading: Reading
    var offset: Int64
  }

  /// How far the wall clock may differ from what is written down before it is written again: what a
  /// reboot may cost a countdown in accuracy.
  static let tolerance: Int64 = 10_000
  /// How long it may be before the time is written down again, so that a wall clock that is lost in
  /// a reboot takes back no more than this.
  static let interval: Int64 = 60_000_000

  /// The store's clock is this much ahead of this boot's boot clock.
  package let offset: Int64
  private(set) var saved: Saved
  /// Virtual time continues exactly where it was, so each step of it is written down.
  private let isVirtual: Bool

  /// - Parameter saved: nil for a new store.
  init(continuing saved: Saved?, at now: Reading, isVirtual: Bool = false) {
    self.isVirtual = isVirtual
    if let saved {
      if saved.reading.isOfSameBoot(as: now) {
        offset = saved.offset
      } else {
        // A wall clock that has been set back meanwhile must not stretch what is stored.
        let away = max(now.wallMicroseconds - saved.reading.wallMicroseconds, 0)
        offset = saved.reading.bootMicroseconds + saved.offset + away - now.bootMicroseconds
      }
    } else {
      offset = now.wallMicroseconds - now.bootMicroseconds
    }
    self.saved = Saved(reading: now, offset: offset)
  }

  /// The clocks when they were last written down.
  package var reading: Reading { saved.reading }

  /// From this boot's boot clock.
  package func stored(bootMicroseconds: Int64) -> Int64 { bootMicroseconds + offset }

  /// To this boot's boot clock; negative for what was before this boot.
  package func bootMicroseconds(stored: Int64) -> Int64 { stored - offset }

  /// Whether the clocks have to be written again.
  package func isOutdated(at now: Reading) -> Bool {
    if isVirtual { return now != saved.reading }
    let old = saved.reading
    let away = now.bootMicroseconds - old.bootMicroseconds
    let step = now.wallMicroseconds - old.wallMicroseconds - away
    return away >= Self.interval || abs(step) > Self.tolerance
  }

  /// When they are outdated by the boot clock alone, in microseconds of it.
  package var outdatedAt: Int64 { saved.reading.bootMicroseconds + Self.interval }

  /// They are written down.
  package mutating func note(_ now: Reading) { saved.reading = now }
}
