/// What one turn has changed: it is written in one transaction, all of it or nothing.
package struct StoreBatch: Sendable {
  /// Of one kind: how its changed entities are now, and which are gone. No index is in both, or
  /// twice in one.
  package struct Changes<Record: Sendable>: Sendable {
    package var current: [Record] = []
    package var gone: [UInt32] = []

    package var count: Int { current.count + gone.count }

    mutating func removeAll() {
      current.removeAll(keepingCapacity: true)
      gone.removeAll(keepingCapacity: true)
    }
  }

  /// Events of the turn, in a form of the engine's choice.
  package struct Events: Equatable, Sendable {
    /// The sequence number of the last of them; higher than any that was stored before.
    package var lastSequence: Int64
    package var count: Int
    package var payload: [UInt8]

    package init(lastSequence: Int64, count: Int, payload: [UInt8]) {
      self.lastSequence = lastSequence
      self.count = count
      self.payload = payload
    }
  }

  /// Of the giver's choice.
  package var number: UInt64 = 0
  package var countdowns = Changes<CountdownRecord>()
  package var timers = Changes<TimerRecord>()
  package var huds = Changes<HUDRecord>()
  package var guards = Changes<GuardRecord>()
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
