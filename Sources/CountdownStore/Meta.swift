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
      database, "SELECT boot_id, boot_us, wall_us, store_minus_boot_us, number_floor FROM meta")
    defer { row.reset() }
    guard try row.step() else { return nil }
    let reading = StoreClock.Reading(
      bootID: row.text(0), bootMicroseconds: row.number(1), wallMicroseconds: row.number(2))
    let meta = Meta(
      clock: StoreClock.Saved(reading: reading, offset: row.number(3)), numberFloor: row.number(4))
    let times = [reading.bootMicroseconds, reading.wallMicroseconds, meta.clock.offset]
    guard times.allSatisfy(possible.contains), NumberFloor.possible.contains(meta.numberFloor)
    else { throw StoreError(.corrupt, database.path, "the row of meta makes no sense") }
    return meta
  }

  /// Writes the row as it is from this start on.
  static func write(
    _ database: Database, product: String, _ clock: StoreClock, at now: StoreClock.Reading,
    numberFloor: Int64
  ) throws(StoreError) {
    let meta = try Statement(
      database,
      """
      INSERT INTO meta (id, product, created_unix_us, number_floor, boot_id, boot_us, wall_us,
        store_minus_boot_us)
      VALUES (1, ?1, ?2, ?3, ?4, ?5, ?2, ?6)
      ON CONFLICT DO UPDATE SET product = ?1, number_floor = ?3, boot_id = ?4, boot_us = ?5,
        wall_us = ?2, store_minus_boot_us = ?6
      """)
    meta.bind(1, product)
    meta.bind(2, now.wallMicroseconds)
    meta.bind(3, numberFloor)
    meta.bind(4, now.bootID)
    meta.bind(5, now.bootMicroseconds)
    meta.bind(6, clock.offset)
    try meta.run()
  }
}
