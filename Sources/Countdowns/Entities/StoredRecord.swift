/// The stored form of an entity: a row of a table, whose columns are its fields.
package protocol StoredRecord: Stored, Equatable, Sendable {
  static var table: String { get }
  /// The kinds of the entities in the table. A row's id begins with the kind's index in this list.
  static var kinds: [EntityKind] { get }

  var kind: EntityKind { get }
  var key: [UInt8] { get }

  /// Writes all fields, without the id. O(fields), as are reading and `restore`.
  func write(to row: any StoredColumns, offset: Int64)
  /// Reads a row; nil if no entity can have these values.
  init?(from row: any StoredColumns, offset: Int64)

  /// Restores the entity at its place. Returns false if there is no room for it.
  func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool
  /// Restores several entities; see the default implementation.
  static func restore(_ rows: [StoredRow<Self>], in engine: Engine, now: Moment) -> Int
}

/// Public, so that the store can inline its initializer: a start may make a million of them.
public struct StoredRow<Record: Equatable & Sendable>: Equatable, Sendable {
  /// The entity's kind, and its place in the engine's table.
  public var id: UInt32
  public var record: Record

  @inlinable
  public init(_ record: Record, id: UInt32) {
    self.id = id
    self.record = record
  }
}

extension StoredRow where Record: StoredRecord {
  package init(_ record: Record, at place: UInt32) {
    self.init(record, id: Record.rowID(record.kind, place))
  }

  /// The entity's place in the engine's table.
  package var place: UInt32 { id & StoredPlaces.mask }
}

/// The places that entities can have in the engine's tables.
package enum StoredPlaces {
  /// One more than the highest place: above any limit of entities that the configuration accepts.
  package static let end: UInt32 = 1 << 27
  /// The number of bits for the place in a row's id, below the kind: enough for any place.
  fileprivate static let bits: UInt32 = 30
  fileprivate static let mask: UInt32 = 1 << bits - 1
}

extension StoredRecord {
  package static func rowID(_ kind: EntityKind, _ place: UInt32) -> UInt32 {
    precondition(place <= StoredPlaces.mask, "more entities than any limit allows")
    return UInt32(kinds.firstIndex(of: kind)!) << StoredPlaces.bits | place
  }

  /// Returns the entity with a row's id; nil if no entity can have this id.
  package static func entity(ofRow id: Int64) -> (kind: EntityKind, place: UInt32)? {
    guard let id = UInt32(exactly: id), id >> StoredPlaces.bits < kinds.count,
      id & StoredPlaces.mask < StoredPlaces.end
    else { return nil }
    return (kinds[Int(id >> StoredPlaces.bits)], id & StoredPlaces.mask)
  }

  /// Restores entities at their places, at a start. Entities of kinds that a fleet shares stay in
  /// the store, for a later start without a fleet.
  ///
  /// - Returns: how many cannot be restored, for example because their key or place is taken.
  package static func restore(
    _ rows: [StoredRow<Self>], in engine: Engine, now: Moment
  ) -> Int {
    // Read in place: copying a record would change reference counts.
    let rows = rows.span
    var refused = 0
    for index in rows.indices {
      if index + 1 < rows.count, rows[index + 1].record.kind == .countdown {
        engine.countdowns.prepare(rows[index + 1].record.key.span)
      }
      let kind = rows[index].record.kind
      guard !engine.copies.contains(kind) else { continue }
      let place = rows[index].place
      if !engine.canRestore(kind, rows[index].record.key, at: place)
        || !rows[index].record.restore(in: engine, at: place, now: now)
      {
        refused += 1
      }
    }
    return refused
  }
}

extension StorageVisitor {
  /// Visits the key of an entity.
  package mutating func key(_ key: inout [UInt8]) {
    field("key", &key)
    require(Engine.canBeKey(key))
  }
}
