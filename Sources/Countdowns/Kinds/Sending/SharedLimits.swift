/// What a command about a shared countdown means for named limits. Their records are others, so the
/// daemon does it: it charges them before the countdown changes, and gives back afterwards.
final class SharedLimits {
  /// A limit's record, how far its clock is ahead, and the latest room that was promised.
  typealias Copy = (record: [UInt8], offset: Int64, promised: Instant?)

  /// What becomes of a send's share of a limit.
  struct Settlement {
    let share: LimitShare
    /// The outcome of its code; nil if it is given back.
    let outcome: LimitSends.Outcome?
  }

  /// What is charged already.
  let charged: [LimitShare]
  /// Returns this daemon's copy of a limit.
  let copy: (_ key: [UInt8]) -> Copy?
  /// The keys of the limits that an accepted start is charged to.
  private(set) var asked: [[UInt8]] = []
  /// Whether the start has a code, whose outcome comes later.
  private(set) var hasCode = false
  var settled: [Settlement] = []
  /// The rooms of limits that the countdown waits for.
  var promised: [[UInt8]: Instant] = [:]

  init(charged: [LimitShare] = [], copy: @escaping ([UInt8]) -> Copy? = { _ in nil }) {
    (self.charged, self.copy) = (charged, copy)
  }

  /// Whether the start is accepted, but its limits are not charged.
  var isOpen: Bool { Set(asked) != Set(charged.map(\.key)) && !asked.isEmpty }

  /// Notes the limits that a start is charged to.
  func note(_ charges: [Engine.Charge], hasCode: Bool, _ sending: Sending?) {
    asked = charges.map(\.key)
    self.hasCode = hasCode
    guard !isOpen, let sending, let last = sending.record.sends.indices.last else { return }
    sending.record.sends[last].shares = charges.compactMap { charge in
      charged.first { $0.key == charge.key }
    }
  }
}

/// What a daemon has taken from a limit for a command.
struct LimitCharge {
  let share: LimitShare
  let cost: UInt32
  /// On the clock of the limit's server.
  let taken: Instant
}

extension Engine {
  /// Whether the limits of a command are charged already, so they do not refuse it any more.
  var areCharged: Bool { context.sharedLimits?.charged.isEmpty == false }

  /// Runs what is due for a limit, and returns its index; nil while nothing of it is used. Beside a
  /// shared countdown it is this daemon's copy of the limit, which nothing changes.
  func limit(_ key: [UInt8], at now: Moment) -> UInt32? {
    guard let shared = context.sharedLimits else {
      return current(ThrottleKind.self, key.span, at: now)
    }
    if throttles.find(key) == nil, let (record, offset, promised) = shared.copy(key) {
      let index = throttles.freeIndex
      // A copy that cannot be read says nothing: its own decision reports it.
      do throws(EntityRecord.Problem) {
        try ThrottleKind.restore(record[...], at: index, offset: offset, in: self, at: now)
      } catch { return nil }
      if let promised { throttles[index].machine.note(promised) }
    }
    return throttles.find(key).flatMap { throttles[$0].isOver ? nil : $0 }
  }

  /// Does what a change of a countdown means for a share of a limit.
  func settle(_ settlement: SharedLimits.Settlement, at now: Moment) {
    if let outcome = settlement.outcome {
      learn(outcome, of: settlement.share, at: now)
    } else {
      refund(settlement.share, at: now)
    }
  }
}
