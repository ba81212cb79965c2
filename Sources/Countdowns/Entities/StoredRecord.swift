/// All that is stored of an entity: a row of a table, whose columns are its fields.
package protocol StoredRecord: Stored, Equatable, Sendable {
  static var table: String { get }
  /// The kinds of the entities in the table. A row's id begins with the place in this list.
  static var kinds: [EntityKind] { get }

  var kind: EntityKind { get }
  var key: [UInt8] { get }

  /// Writes all fields, without the id. O(fields), as are reading and `restore`.
  func write(to row: any StoredColumns, offset: Int64)
  /// Nil if no entity is like this.
  init?(from row: any StoredColumns, offset: Int64)

  /// Puts the entity where it was. False if there is no room for it.
  func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool
  /// The same for several rows; see `restore(_:in:now:)`.
  static func restore(_ rows: [StoredRow<Self>], in engine: Engine, now: Moment) -> Int
}

/// Public, as only then the store has copies of its initializer: a million are made at a start.
public struct StoredRow<Record: Equatable & Sendable>: Equatable, Sendable {
  /// Names the entity: its kind and its place in the engine's table.
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

/// Where entities can be in the engine's tables.
package enum StoredPlaces {
  /// Above whatever limit of entities the configuration takes.
  package static let end: UInt32 = 1 << 27
  /// Ids of rows have the kind above so many bits of the place: more than there may be entities.
  fileprivate static let bits: UInt32 = 30
  fileprivate static let mask: UInt32 = 1 << bits - 1
}

extension StoredRecord {
  package static func rowID(_ kind: EntityKind, _ place: UInt32) -> UInt32 {
    precondition(place <= StoredPlaces.mask, "more entities than any limit allows")
    return UInt32(kinds.firstIndex(of: kind)!) << StoredPlaces.bits | place
  }

  /// Nil if no entity has such an id.
  package static func entity(ofRow id: Int64) -> (kind: EntityKind, place: UInt32)? {
    guard let id = UInt32(exactly: id), id >> StoredPlaces.bits < kinds.count,
      id & StoredPlaces.mask < StoredPlaces.end
    else { return nil }
    return (kinds[Int(id >> StoredPlaces.bits)], id & StoredPlaces.mask)
  }

  /// Puts entities where they were, at the start. Those of kinds that a fleet shares stay in the
  /// store, for when there is no fleet any more.
  ///
  /// - Returns: how many cannot be there: another has the same key or the same place.
  package static func restore(
    _ rows: [StoredRow<Self>], in engine: Engine, now: Moment
  ) -> Int {
    var refused = 0
    for index in rows.indices {
      if index + 1 < rows.count {
        let next = rows[index + 1].record
        if next.kind == .countdown { engine.countdowns.prepare(next.key.span) }
      }
      let record = rows[index].record
      guard !engine.copies.contains(record.kind) else { continue }
      if !engine.canRestore(record.kind, record.key, at: rows[index].place)
        || !record.restore(in: engine, at: rows[index].place, now: now)
      {
        refused += 1
      }
    }
    return refused
  }
}

extension StorageVisitor {
  /// The name of an entity.
  package mutating func key(_ key: inout [UInt8]) {
    field("key", &key)
    require(Engine.canBeKey(key))
  }
}
