import Countdowns

/// The records of some kinds in a backup, as they are stored.
package final class StoredRecords: EntityReader {
  package let portion = 4_096
  package struct Entry {
    package let kind: EntityKind
    package let slot: UInt32
    package let record: ArraySlice<UInt8>
    /// Whether it is no entity, but some of the sends of a limit.
    package var isSends: Bool { EntityRecord.isSends(record.first) }
    /// Empty if the record is damaged.
    package var key: ArraySlice<UInt8> {
      let range = EntityRecord.key(of: record.span) ?? 0..<0
      return record.dropFirst(range.lowerBound).prefix(range.count)
    }
  }

  private let kinds: Set<EntityKind>
  package private(set) var all: [Entry] = []

  package init(ofBackup path: String, _ kinds: Set<EntityKind>) throws(StoreError) {
    self.kinds = kinds
    let database = try Database(path, .readWrite)
    try Schema.verify(database)
    try EntityRows.load(database, besides: NewestChanges(), self)
  }

  package func take(_ entities: StoredEntities) {
    for (index, entry) in entities.entries.enumerated() where kinds.contains(entry.kind) {
      all.append(Entry(kind: entry.kind, slot: entry.slot, record: entities.record(index)))
    }
  }
}
