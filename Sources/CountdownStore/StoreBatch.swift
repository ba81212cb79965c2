import Countdowns

/// What one turn has changed: it is written in one transaction, all of it or nothing.
package struct StoreBatch: Sendable {
  /// Of one table: how entities that have changed are now, and which are gone. No row is in both, or
  /// twice in one.
  package struct Changes<Record: StoredRecord>: Sendable {
    package var current: [StoredRow<Record>] = []
    /// Ids of rows.
    package var gone: [UInt32] = []

    package var count: Int { current.count + gone.count }

    mutating func removeAll() {
      current.removeAll(keepingCapacity: true)
      gone.removeAll(keepingCapacity: true)
    }

    fileprivate mutating func note(_ place: UInt32, _ record: consuming Record) {
      current.append(StoredRow(record, at: place))
    }

    fileprivate mutating func noteGone(_ kind: EntityKind, _ place: UInt32) {
      gone.append(Record.rowID(kind, place))
    }

    fileprivate var changed: [Entity] { current.map { ($0.record.kind, $0.place) } }

    fileprivate var ended: [Entity] { gone.compactMap { Record.entity(ofRow: Int64($0)) } }
  }

  /// Events of the turn, in a form of the engine's choice.
  package struct Events: Equatable, Sendable {
    /// The sequence number of the last of them; higher than any that was stored before.
    package var lastSequence: Int64
    package var count: Int
    package var payload: [UInt8]
    /// Events up to this number may be missing, after those that were stored before.
    package var missingThrough: Int64

    package init(
      lastSequence: Int64, count: Int, payload: [UInt8], missingThrough: Int64 = 0
    ) {
      self.lastSequence = lastSequence
      self.count = count
      self.payload = payload
      self.missingThrough = missingThrough
    }
  }

  /// Of the giver's choice.
  package var number: UInt64 = 0
  package var countdowns = Changes<DurableCountdown>()
  package var timers = Changes<DurableTimer>()
  package var huds = Changes<DurableHUD>()
  package var guards = Changes<DurableGuard>()
  package var events: Events?

  package init() {}

  /// Rows to write.
  package var count: Int {
    countdowns.count + timers.count + huds.count + guards.count + (events == nil ? 0 : 1)
  }

  package var isEmpty: Bool { count == 0 }

  /// Empty again, with its memory kept for the next turn.
  package mutating func removeAll() {
    countdowns.removeAll()
    timers.removeAll()
    huds.removeAll()
    guards.removeAll()
    events = nil
  }
}

// MARK: From the engine

extension StoreBatch {
  /// An entity of the engine, by its kind and its place in the table of that.
  package typealias Entity = (kind: EntityKind, place: UInt32)

  /// What has changed since the last batch.
  package init(takenFrom engine: Engine) {
    number = engine.beginBatch()
    engine.takeCountdownChanges(
      current: { countdowns.note($0, $1) }, gone: { countdowns.noteGone(.countdown, $0) })
    engine.takeTimerChanges(
      current: { timers.note($0, $1) }, gone: { timers.noteGone(.timer, $0) })
    engine.takeHUDChanges(current: { huds.note($0, $1) }, gone: { huds.noteGone(.hud, $0) })
    engine.takeGuardChanges(
      current: { guards.note($0, $1) }, gone: { guards.noteGone($0, $1) })
    events = engine.eventTail.takeUnstored().map {
      Events(
        lastSequence: $0.lastSequence, count: $0.count, payload: $0.bytes,
        // The oldest make room before any store has them where one batch has more than the limit.
        missingThrough: engine.eventTail.droppedThrough)
    }
  }

  /// Entities that are stored as they are now.
  package var changed: [Entity] {
    countdowns.changed + timers.changed + huds.changed + guards.changed
  }

  /// Entities that are stored no more.
  package var ended: [Entity] { countdowns.ended + timers.ended + huds.ended + guards.ended }
}
