import Countdowns

/// The only row of the table `meta`: who wrote the state, the clocks, the highest number that may
/// have been given out, and the last folded batch.
struct Meta: Stored {
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

    mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
      visitor.field("number_floor", &numberFloor)
      visitor.text("boot_id", &saved.reading.bootID)
      visitor.field("boot_us", &saved.reading.bootMicroseconds)
      visitor.field("wall_us", &saved.reading.wallMicroseconds)
      visitor.field("store_minus_boot_us", &saved.offset)
      visitor.require(
        [saved.reading.bootMicroseconds, saved.reading.wallMicroseconds, saved.offset]
          .allSatisfy(Instant.possible.contains) && Numbers.possible.contains(numberFloor))
    }
  }

  /// The program that wrote last, and its version. It stays the first field in later versions, so
  /// that older ones can name the release that reads them.
  var product = ""
  var clocks: Clocks
  /// The random ID of this state. Segments with another lineage belong to another state.
  var lineage: Int64
  /// The number of the last batch in the tables.
  var folded: Int64
  /// The number of the newest start; when read from a file, a lower bound.
  var start: UInt32

  /// Creates the row of a new state.
  init(_ clocks: Clocks) {
    self.clocks = clocks
    lineage = Self.newLineage
    (folded, start) = (0, 0)
  }

  static var blank: Meta { Meta(.blank) }
  static var newLineage: Int64 { Int64.random(in: 1...Int64.max) }

  private static let version: UInt8 = 1

  mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.text("product", &product)
    clocks.fields(&visitor)
    visitor.field("lineage", &lineage)
    visitor.field("folded", &folded)
    visitor.field("start", &start)
    visitor.require(lineage > 0 && folded >= 0)
  }

  /// Reads the row; nil in a new file.
  static func read(_ database: Database) throws(StoreError) -> Meta? {
    let row = try Statement(database, "SELECT bytes, sum FROM meta")
    defer { row.reset() }
    guard try row.step() else { return nil }
    let bytes = row.bytes(0)
    let damage = StoreError(.corrupt, database.path, "the row of meta makes no sense")
    guard row.number(1) == Int64(CRC32C.checksum(bytes.span)), let version = bytes.first else {
      throw damage
    }
    guard version == Self.version else {
      throw .newerSchema(found: Int(version), known: Int(Self.version), of: "meta", database)
    }
    guard let meta = Meta(bytes: Array(bytes.dropFirst()), offset: 0) else { throw damage }
    return meta
  }

  /// Returns the program that wrote a state, of this or a later version; nil if it is unknown.
  static func product(of database: Database) -> String? {
    guard let row = try? Statement(database, "SELECT bytes FROM meta"), (try? row.step()) == true
    else { return nil }
    defer { row.reset() }
    var reader = StateReader(row.bytes(0).dropFirst(), offset: 0)
    var product = ""
    reader.text("product", &product)
    return reader.hasFailed || product.isEmpty ? nil : product
  }

  func write(_ database: Database, product: String) throws(StoreError) {
    var meta = self
    meta.product = product
    let bytes = [Self.version] + meta.bytes(offset: 0)
    let row = try Statement(
      database, "INSERT OR REPLACE INTO meta (id, bytes, sum) VALUES (1, ?, ?)")
    row.bind(1, bytes[...])
    row.bind(2, Int64(CRC32C.checksum(bytes.span)))
    try row.run()
  }
}
