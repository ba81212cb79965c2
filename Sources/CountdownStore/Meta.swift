/// The one row of the table `meta`: how the clocks stood, and how far numbers may have been given out.
struct Meta {
  var clock: StoreClock.Saved
  var numberFloor: Int64

  /// Three thousand years about the epoch: no sum of a few such times overflows.
  private static let possible: ClosedRange<Int64> =
    -100_000_000_000_000_000...100_000_000_000_000_000

  /// Nil in a file that is new. What cannot be would overflow at each start, so it is `corrupt`.
  static func read(_ database: Database) throws(StoreError) -> Meta? {
    let row = try Statement(
      database,
      """
      SELECT product, number_floor, boot_id, boot_us, wall_us, store_minus_boot_us, sum FROM meta
      """)
    defer { row.reset() }
    guard try row.step() else { return nil }
    // For the sum.
    _ = row.text(0)
    let reading = StoreClock.Reading(
      bootID: row.text(2), bootMicroseconds: row.number(3), wallMicroseconds: row.number(4))
    let meta = Meta(
      clock: StoreClock.Saved(reading: reading, offset: row.number(5)), numberFloor: row.number(1))
    let times = [reading.bootMicroseconds, reading.wallMicroseconds, meta.clock.offset]
    guard row.hasRightSum(6), times.allSatisfy(possible.contains),
      NumberFloor.possible.contains(meta.numberFloor)
    else { throw StoreError(.corrupt, database.path, "the row of meta makes no sense") }
    return meta
  }

  /// Writes the row.
  ///
  /// - Parameter now: how the clocks stand.
  static func write(
    _ database: Database, product: String, _ clock: StoreClock, at now: StoreClock.Reading,
    numberFloor: Int64
  ) throws(StoreError) {
    let meta = try Statement(
      database,
      """
      INSERT INTO meta (id, created_unix_us, product, number_floor, boot_id, boot_us, wall_us,
        store_minus_boot_us, sum)
      VALUES (1, ?5, ?1, ?2, ?3, ?4, ?5, ?6, ?7)
      ON CONFLICT DO UPDATE SET product = ?1, number_floor = ?2, boot_id = ?3, boot_us = ?4,
        wall_us = ?5, store_minus_boot_us = ?6, sum = ?7
      """)
    meta.bind(1, product)
    meta.bind(2, numberFloor)
    meta.bind(3, now.bootID)
    meta.bind(4, now.bootMicroseconds)
    meta.bind(5, now.wallMicroseconds)
    meta.bind(6, clock.offset)
    meta.bindSum(7)
    try meta.run()
  }
}
