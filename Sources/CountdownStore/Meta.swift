import Countdowns

/// The only row of the table `meta`: the clocks, the highest number that may have been given out,
/// and the last folded batch.
struct Meta {
  /// The part that the log stores, too.
  struct Clocks: Equatable, Stored {
    var saved: StoreClock.Saved
    var numberFloor: Int64

    static var blank: Clocks {
      Clocks(
        saved: StoreClock.Saved(
          reading: StoreClock.Reading(bootID: "", bootMicroseconds: 0, wallMicroseconds: 0),
          offset: 0), numberFloor: 0)
    }

    /// Valid times, within 3,000 years of the epoch: no sum of a few of them overflows.
    private static let possible: ClosedRange<Int64> =
      -100_000_000_000_000_000...100_000_000_000_000_000

    mutating func fields<Visitor: StorageVisitor>(_ visitor: inout Visitor) {
      visitor.field("number_floor", &numberFloor)
      var bootID = Array(saved.reading.bootID.utf8)
      visitor.field("boot_id", &bootID)
      var (boot, wall) = (saved.reading.bootMicroseconds, saved.reading.wallMicroseconds)
      visitor.field("boot_us", &boot)
      visitor.field("wall_us", &wall)
      visitor.field("store_minus_boot_us", &saved.offset)
      guard Visitor.isReading else { return }
      saved.reading = StoreClock.Reading(
        bootID: String(decoding: bootID, as: UTF8.self), bootMicroseconds: boot,
        wallMicroseconds: wall)
      visitor.require(
        [boot, wall, saved.offset].allSatisfy(Self.possible.contains)
          && NumberFloor.possible.contains(numberFloor))
    }
  }

  var clocks: Clocks
  /// The random ID of this state. Segments with another lineage belong to another state.
  var lineage: Int64
  /// The number of the last batch in the tables.
  var folded: UInt64
  /// The number of the newest start; when read from a file, a lower bound.
  var start: UInt32

  /// Creates the row of a new state.
  init(_ clocks: Clocks) {
    self.clocks = clocks
    lineage = Self.newLineage
    (folded, start) = (0, 0)
  }

  static var newLineage: Int64 { Int64.random(in: 1...Int64.max) }

  /// Reads the row; nil in a new file. Throws `corrupt` for values that would overflow later.
  static func read(_ database: Database) throws(StoreError) -> Meta? {
    let row = try Statement(
      database,
      """
      SELECT product, number_floor, boot_id, boot_us, wall_us, store_minus_boot_us, sum, lineage,
        folded, start FROM meta
      """)
    defer { row.reset() }
    guard try row.step() else { return nil }
    // The sum includes it.
    _ = row.text(0)
    var columns = ColumnReader(row: row, offset: 0)
    var clocks = Clocks.blank
    clocks.fields(&columns)
    var meta = Meta(clocks)
    // NULL in a row of an older version.
    if let lineage = row.optionalNumber(7), let folded = row.optionalNumber(8),
      let start = row.optionalNumber(9)
    {
      (meta.lineage, meta.folded) = (lineage, UInt64(clamping: folded))
      meta.start = UInt32(clamping: start)
    }
    guard !columns.hasFailed, row.hasRightSum(6) else {
      throw StoreError(.corrupt, database.path, "the row of meta makes no sense")
    }
    return meta
  }

  func write(_ database: Database, product: String) throws(StoreError) {
    let meta = try Statement(
      database,
      """
      INSERT INTO meta (id, created_unix_us, product, number_floor, boot_id, boot_us, wall_us,
        store_minus_boot_us, sum, lineage, folded, start)
      VALUES (1, ?5, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
      ON CONFLICT DO UPDATE SET product = ?1, number_floor = ?2, boot_id = ?3, boot_us = ?4,
        wall_us = ?5, store_minus_boot_us = ?6, sum = ?7, lineage = ?8, folded = ?9, start = ?10
      """)
    meta.bind(1, product)
    meta.bind(2, clocks.numberFloor)
    meta.bind(3, clocks.saved.reading.bootID)
    meta.bind(4, clocks.saved.reading.bootMicroseconds)
    meta.bind(5, clocks.saved.reading.wallMicroseconds)
    meta.bind(6, clocks.saved.offset)
    meta.bind(8, lineage)
    meta.bind(9, Int64(folded))
    meta.bind(10, Int64(start))
    meta.bindSum(7)
    try meta.run()
  }
}
