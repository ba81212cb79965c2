/// A rate limit, an idempotency key, a gate or a debouncer as it is stored. Instants are on the
/// boot clock of this boot. They share one table, as they are much alike.
package struct DurableGuard: Equatable, Sendable {
  package var key: [UInt8]
  package private(set) var kind: EntityKind
  package private(set) var columns: GuardColumns
  package var generation: Generation
  package var uid: UInt32

  package init(key: [UInt8], _ machine: some Guard, generation: Generation, uid: UInt32) {
    self.key = key
    kind = type(of: machine).kind
    columns = machine.columns
    self.generation = generation
    self.uid = uid
  }
}

/// A machine, as columns. The schema says what each means for each kind.
package struct GuardColumns: Equatable, Sendable {
  package var phase: Int64 = 0
  package var moment: Instant?
  package var since: Instant?
  package var interval: Interval?
  package var maximumWait: Interval?
  package var number: Int64?
  package var rateCount: Int64?
  package var fraction: Int64?
  package var action: [UInt8]?
  package var payload: [UInt8]?
}

extension DurableGuard: StoredRecord {
  package static let table = "guards"
  package static let kinds = guardKinds.map { $0.kind }

  package static var blank: DurableGuard {
    DurableGuard(key: [], Once(.running, until: .zero), generation: Generation(0), uid: 0)
  }

  package mutating func fields<Row: StorageVisitor>(_ row: inout Row) {
    row.code("kind", &kind, of: Self.kinds)
    row.key(&key)
    row.field("generation", &generation.value)
    row.field("uid", &uid)
    row.field("phase", &columns.phase)
    row.instant("moment_store_us", &columns.moment)
    row.instant("since_store_us", &columns.since)
    row.interval("interval_us", &columns.interval)
    row.interval("max_wait_us", &columns.maximumWait)
    row.field("number", &columns.number)
    row.field("rate_count", &columns.rateCount)
    row.field("fraction", &columns.fraction)
    row.field("action", &columns.action)
    row.field("payload", &columns.payload)
    if Row.isReading, !makesSense { row.fail() }
  }

  private var makesSense: Bool { guardKinds.first { $0.kind == kind }!.canBe(columns) }

  package func restore(in engine: Engine, at place: UInt32, now: Moment) -> Bool {
    engine.restore(self, at: place)
    return true
  }
}
