/// A countdown as it is kept.
package struct CountdownRecord: StoredRecord, Equatable, Sendable {
  /// Moments are on the store's clock, see `StoreClock`.
  package enum Phase: Equatable, Sendable {
    case counting(untilMicroseconds: Int64)
    case paused(leftMicroseconds: Int64)
    case ready(sinceMicroseconds: Int64)
    case idle(sinceMicroseconds: Int64)
  }

  /// Its place in the engine's table, and its row id.
  package var index: UInt32
  package var key: [UInt8]
  package var generation: Int64
  package var uid: UInt32
  package var phase: Phase
  /// The plan: so many steps of so long.
  package var count: UInt32
  package var everyMicroseconds: Int64
  package var firesAtOnce: Bool
  /// Starts that were accepted.
  package var sends: UInt32
  /// Whether the last of them was given back.
  package var isRefunded: Bool
  package var title: [UInt8]?
  package var readyTitle: [UInt8]?
  package var meta: [UInt8]?
  /// The token of the start that was accepted last, and of starts before it.
  package var token: [UInt8]?
  package var earlierTokens: [UInt8]?
  /// The name of its send policy, and what that remembers; times therein are on the store's clock.
  package var policy: [UInt8]?
  package var policyState: [UInt8]?

  package init(
    index: UInt32, key: [UInt8], generation: Int64, uid: UInt32, phase: Phase, count: UInt32,
    everyMicroseconds: Int64, firesAtOnce: Bool = false, sends: UInt32 = 1,
    isRefunded: Bool = false, title: [UInt8]? = nil, readyTitle: [UInt8]? = nil,
    meta: [UInt8]? = nil,
    token: [UInt8]? = nil, earlierTokens: [UInt8]? = nil, policy: [UInt8]? = nil,
    policyState: [UInt8]? = nil
  ) {
    self.index = index
    self.key = key
    self.generation = generation
    self.uid = uid
    self.phase = phase
    self.count = count
    self.everyMicroseconds = everyMicroseconds
    self.firesAtOnce = firesAtOnce
    self.sends = sends
    self.isRefunded = isRefunded
    self.title = title
    self.readyTitle = readyTitle
    self.meta = meta
    self.token = token
    self.earlierTokens = earlierTokens
    self.policy = policy
    self.policyState = policyState
  }

  // MARK: Row

  static let table = "countdowns"
  static let columns = [
    "id", "key", "generation", "uid", "phase", "deadline_store_us", "left_us", "step_count",
    "every_us", "fires_at_once", "sends", "refunded", "title", "ready_title", "meta", "token",
    "policy", "policy_state", "earlier_tokens",
  ]

  func bind(to row: Statement) {
    row.bind(1, Int64(index))
    row.bind(2, key)
    row.bind(3, generation)
    row.bind(4, Int64(uid))
    switch phase {
    case .counting(let until): bind(to: row, 0, until, nil)
    case .paused(let left): bind(to: row, 1, nil, left)
    case .ready(let since): bind(to: row, 2, since, nil)
    case .idle(let since): bind(to: row, 3, since, nil)
    }
    row.bind(8, Int64(count))
    row.bind(9, everyMicroseconds)
    row.bind(10, firesAtOnce ? 1 : 0)
    row.bind(11, Int64(sends))
    row.bind(12, isRefunded ? 1 : 0)
    row.bind(13, title)
    row.bind(14, readyTitle)
    row.bind(15, meta)
    row.bind(16, token)
    row.bind(17, policy)
    row.bind(18, policyState)
    row.bind(19, earlierTokens)
  }

  private func bind(to row: Statement, _ phase: Int64, _ deadline: Int64?, _ left: Int64?) {
    row.bind(5, phase)
    row.bind(6, deadline)
    row.bind(7, left)
  }

  init?(row: Statement) {
    guard let index = row.place(0), let uid = UInt32(exactly: row.number(3)),
      let count = UInt32(exactly: row.number(7)), let sends = UInt32(exactly: row.number(10))
    else { return nil }
    switch (row.number(4), row.optionalNumber(5), row.optionalNumber(6)) {
    case (0, let until?, nil): phase = .counting(untilMicroseconds: until)
    case (1, nil, let left?): phase = .paused(leftMicroseconds: left)
    case (2, let since?, nil): phase = .ready(sinceMicroseconds: since)
    case (3, let since?, nil): phase = .idle(sinceMicroseconds: since)
    default: return nil
    }
    self.index = index
    key = row.bytes(1)
    generation = row.number(2)
    self.uid = uid
    self.count = count
    everyMicroseconds = row.number(8)
    firesAtOnce = row.number(9) != 0
    self.sends = sends
    isRefunded = row.number(11) != 0
    title = row.optionalBytes(12)
    readyTitle = row.optionalBytes(13)
    meta = row.optionalBytes(14)
    token = row.optionalBytes(15)
    policy = row.optionalBytes(16)
    policyState = row.optionalBytes(17)
    earlierTokens = row.optionalBytes(18)
  }
}
