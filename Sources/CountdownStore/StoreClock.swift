/// The clock that stored deadlines are on: it goes on over reboots.
///
/// Within a boot it runs with the boot clock, at a fixed distance from it, so that setting the
/// wall clock moves nothing. From one boot to the next it goes on by as much as the wall clock
/// did. So a stored deadline keeps its meaning for good, and no row has to be written anew after a
/// reboot. It begins at the wall clock's time; later steps of the wall clock set them apart.
///
/// All times are in microseconds.
package struct StoreClock: Equatable, Sendable {
  /// The clocks of the machine at one moment.
  package struct Reading: Equatable, Sendable {
    /// Names the boot, as /proc/sys/kernel/random/boot_id does.
    package var bootID: String
    package var bootMicroseconds: Int64
    /// Since 1970.
    package var wallMicroseconds: Int64

    package init(bootID: String, bootMicroseconds: Int64, wallMicroseconds: Int64) {
      self.bootID = bootID
      self.bootMicroseconds = bootMicroseconds
      self.wallMicroseconds = wallMicroseconds
    }
  }

  /// How the clocks stood when that was last written down.
  struct Saved: Equatable {
    var reading: Reading
    var offset: Int64
  }

  /// What the wall clock may be off by from what is written down, before that is done anew: what a
  /// reboot may cost a countdown in accuracy.
  static let tolerance: Int64 = 10_000
  /// How long it may be before the time is written down again, so that a wall clock that is lost in
  /// a reboot takes back no more than this.
  static let interval: Int64 = 60_000_000

  /// The store's clock is this much ahead of this boot's boot clock.
  package let offset: Int64
  private(set) var saved: Saved

  /// - Parameter saved: nil for a new store.
  init(continuing saved: Saved?, at now: Reading) {
    if let saved {
      // The id of the boot is not enough: in another time namespace the clock is another.
      let isSameBoot =
        saved.reading.bootID == now.bootID
        && saved.reading.bootMicroseconds <= now.bootMicroseconds
      if isSameBoot {
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

  /// From this boot's boot clock.
  package func stored(bootMicroseconds: Int64) -> Int64 { bootMicroseconds + offset }

  /// To this boot's boot clock; negative for what was before this boot.
  package func bootMicroseconds(stored: Int64) -> Int64 { stored - offset }

  /// Whether the clocks are to be written down with the next commit.
  func isOutdated(at now: Reading) -> Bool {
    let old = saved.reading
    let away = now.bootMicroseconds - old.bootMicroseconds
    let step = now.wallMicroseconds - old.wallMicroseconds - away
    return away >= Self.interval || abs(step) > Self.tolerance
  }

  mutating func note(_ now: Reading) { saved.reading = now }
}
