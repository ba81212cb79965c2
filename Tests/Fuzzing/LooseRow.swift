import CountdownStore
import Countdowns
import SeededRandom

/// A row of any table as separate fields that can be damaged. Times are on the store's clock.
struct LooseRow {
  enum Value {
    case number(Int64)
    case bytes([UInt8])
    case null
  }

  let id: UInt32
  let table: any StoredRecord.Type
  let kind: EntityKind
  /// Whether the row is a countdown with sends under a policy.
  let hasPolicy: Bool
  fileprivate(set) var fields: [Value]

  mutating func damage(_ random: inout SeededGenerator, inserting inserts: [UInt8]) {
    let place = random.number(below: fields.count)
    switch fields[place] {
    case .number: fields[place] = random.isOne(in: 10) ? .null : .number(random.edge())
    case .bytes(var bytes):
      random.damage(&bytes, atMost: 2, inserting: inserts)
      fields[place] = .bytes(bytes)
    case .null: fields[place] = .number(random.edge())
    }
  }

  /// Restores the row if it is valid, as the daemon does.
  func restore(in engine: Engine, offset: Int64, now: Moment) {
    func take<Record: StoredRecord>(_: Record.Type) {
      var reader = LooseReader(fields, offset: offset)
      var record = Record.blank
      record.fields(&reader)
      guard !reader.hasFailed, Record.entity(ofRow: Int64(id))?.kind == record.kind else { return }
      _ = Record.restore([StoredRow(record, id: id)], in: engine, now: now)
    }
    take(table)
  }
}

/// The readable rows of a store.
final class LooseRows: RecordReader {
  let portion = 100
  let wantsMore = true
  private let offset: Int64
  private(set) var rows: [LooseRow] = []

  init(offset: Int64) { self.offset = offset }

  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>]) {
    for row in rows {
      var writer = LooseWriter(offset: offset)
      var record = row.record
      record.fields(&writer)
      self.rows.append(
        LooseRow(
          id: row.id, table: Record.self, kind: record.kind,
          hasPolicy: (record as? DurableCountdown)?.sending != nil, fields: writer.fields))
    }
  }

  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type) {}
}

private struct LooseWriter: StorageVisitor {
  static var isReading: Bool { false }
  let offset: Int64
  var hasFailed: Bool { false }
  private(set) var fields: [LooseRow.Value] = []

  init(offset: Int64) { self.offset = offset }

  mutating func fail() {}

  mutating func field(_ name: StaticString, _ value: inout Int64) { fields.append(.number(value)) }

  mutating func field(_ name: StaticString, _ value: inout Int64?) {
    fields.append(value.map { .number($0) } ?? .null)
  }

  mutating func field(_ name: StaticString, _ value: inout [UInt8]) { fields.append(.bytes(value)) }

  mutating func field(_ name: StaticString, _ value: inout [UInt8]?) {
    fields.append(value.map { .bytes($0) } ?? .null)
  }
}

/// Like a row, it reads a value of another type as nil, zero or empty.
private struct LooseReader: StorageVisitor {
  static var isReading: Bool { true }
  let offset: Int64
  private(set) var hasFailed = false
  private var fields: ArraySlice<LooseRow.Value>

  init(_ fields: [LooseRow.Value], offset: Int64) {
    self.fields = fields[...]
    self.offset = offset
  }

  mutating func fail() { hasFailed = true }

  mutating func field(_ name: StaticString, _ value: inout Int64) { value = number() ?? 0 }
  mutating func field(_ name: StaticString, _ value: inout Int64?) { value = number() }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]) { value = bytes() ?? [] }
  mutating func field(_ name: StaticString, _ value: inout [UInt8]?) { value = bytes() }

  private mutating func number() -> Int64? {
    if case .number(let number) = fields.removeFirst() { number } else { nil }
  }

  private mutating func bytes() -> [UInt8]? {
    if case .bytes(let bytes) = fields.removeFirst() { bytes } else { nil }
  }
}
