/// A plain timer as it is kept.
package struct TimerRecord: StoredRecord, Equatable, Sendable {
  package enum Clock: Int64, CaseIterable, Sendable {
    /// Its deadline is on the store's clock, see `StoreClock`.
    case boot = 0
    /// Its deadline is in microseconds since 1970, and moves with the wall clock.
    case wall = 1
  }

  /// What is done about periods that were missed.
  package enum Late: Int64, CaseIterable, Sendable {
    case fire = 0
    case skip, coalesce
  }

  package enum Phase: Equatable, Sendable {
    case running(untilMicroseconds: Int64)
    case paused(leftMicroseconds: Int64)
  }

  /// Its place in the engine's table, and its row id.
  package var index: UInt32
  package var key: [UInt8]
  package var generation: Int64
  package var uid: UInt32
  package var clock: Clock
  package var phase: Phase
  /// The period; nil if it fires once.
  package var everyMicroseconds: Int64?
  package var late: Late
  package var fired: Int64
  package var missed: Int64
  package var payload: [UInt8]?

  package init(
    index: UInt32, key: [UInt8], generation: Int64, uid: UInt32, clock: Clock = .boot,
    phase: Phase, everyMicroseconds: Int64? = nil, late: Late = .fire, fired: Int64 = 0,
    missed: Int64 = 0, payload: [UInt8]? = nil
  ) {
    self.index = index
    self.key = key
    self.generation = generation
    self.uid = uid
    self.clock = clock
    self.phase = phase
    self.everyMicroseconds = everyMicroseconds
    self.late = late
    self.fired = fired
    self.missed = missed
    self.payload = payload
  }

  // MARK: Row

  static let table = "timers"
  static let columns = [
    "id", "key", "generation", "uid", "clock", "phase", "deadline_store_us", "deadline_unix_us",
    "left_us", "every_us", "late", "fired", "missed", "payload",
  ]

  func bind(to row: Statement) {
    row.bind(1, Int64(index))
    row.bind(2, key)
    row.bind(3, generation)
    row.bind(4, Int64(uid))
    row.bind(5, clock.rawValue)
    switch phase {
    case .running(let until):
      row.bind(6, 0)
      row.bind(7, clock == .boot ? until : nil)
      row.bind(8, clock == .wall ? until : nil)
      row.bind(9, nil as Int64?)
    case .paused(let left):
      row.bind(6, 1)
      row.bind(7, nil as Int64?)
      row.bind(8, nil as Int64?)
      row.bind(9, left)
    }
    row.bind(10, everyMicroseconds)
    row.bind(11, late.rawValue)
    row.bind(12, fired)
    row.bind(13, missed)
    row.bind(14, payload)
  }

  init?(row: Statement) {
    guard let index = row.place(0), let uid = UInt32(exactly: row.number(3)),
      let clock = Clock(rawValue: row.number(4)), let late = Late(rawValue: row.number(10))
    else { return nil }
    let deadline = row.optionalNumber(clock == .boot ? 6 : 7)
    switch (row.number(5), deadline, row.optionalNumber(8)) {
    case (0, let until?, nil): phase = .running(untilMicroseconds: until)
    case (1, nil, let left?): phase = .paused(leftMicroseconds: left)
    default: return nil
    }
    self.index = index
    key = row.bytes(1)
    generation = row.number(2)
    self.uid = uid
    self.clock = clock
    everyMicroseconds = row.optionalNumber(9)
    self.late = late
    fired = row.number(11)
    missed = row.number(12)
    payload = row.optionalBytes(13)
  }
}
