/// Do it now if the session is open, else once it is: the action after a login.
///
///     (nothing) --CHECK--> pending --CHECK--> pending (the newest action alone)
///     pending --OPEN: runs it--> open        pending --CANCEL, TTL over, owner gone--> (nothing)
///     (nothing) --OPEN--> open --OPEN--> open --CLOSE, TTL over--> (nothing)
///
/// While it is open nothing is ever pending: an action either runs at once, or is pending
/// and run by the next OPEN, once.
package struct Gate: Guard {
  package struct Action: Equatable, Sendable {
    package var name: [UInt8]
    package var payload: [UInt8]?

    package init(name: [UInt8], payload: [UInt8]? = nil) {
      self.name = name
      self.payload = payload
    }
  }

  package enum Phase: Equatable, Sendable {
    case pending(Action, until: Instant)
    /// Without an end: until CLOSE.
    case open(until: Instant?)
  }

  package enum Expiry: Equatable, Sendable {
    case dropped(Action, due: Instant)
    case closed(due: Instant)
  }

  package private(set) var phase: Phase

  /// Closed, with an action that waits for it to open.
  package init(waitingFor action: Action, for ttl: Interval, at now: Instant) {
    phase = .pending(action, until: now + ttl)
  }

  /// Open; until CLOSE without a TTL.
  package init(openFor ttl: Interval?, at now: Instant) {
    phase = .open(until: ttl.map { now + $0 })
  }

  /// As it was stored.
  package init(_ phase: Phase) { self.phase = phase }

  // MARK: Inputs

  /// - Returns: whether the action may run at once; else it is the pending one.
  package mutating func check(_ action: Action, for ttl: Interval, at now: Instant) -> Bool {
    if isOpen { return true }
    phase = .pending(action, until: now + ttl)
    return false
  }

  /// - Returns: the pending action, to be run now.
  package mutating func open(for ttl: Interval?, at now: Instant) -> Action? {
    let waiting = pending
    phase = .open(until: ttl.map { now + $0 })
    return waiting
  }

  // MARK: What is so

  /// What has ended by `now`; nil if nothing has.
  package func expiry(at now: Instant) -> Expiry? {
    guard let due = nextExpiry, due <= now else { return nil }
    switch phase {
    case .pending(let action, _): return .dropped(action, due: due)
    case .open: return .closed(due: due)
    }
  }

  package var isOpen: Bool {
    if case .open = phase { true } else { false }
  }

  package var pending: Action? {
    if case .pending(let action, _) = phase { action } else { nil }
  }

  package var nextExpiry: Instant? {
    switch phase {
    case .pending(_, let until): until
    case .open(let until): until
    }
  }
}

extension Gate {
  package typealias View = GateView
  package static let kind = EntityKind.gate

  package var columns: GuardColumns {
    var columns = GuardColumns()
    switch phase {
    case .pending(let waiting, let until):
      (columns.moment, columns.action, columns.payload) = (until, waiting.name, waiting.payload)
    case .open(let until):
      (columns.phase, columns.moment) = (1, until)
    }
    return columns
  }

  package init?(_ columns: GuardColumns) {
    switch columns.phase {
    case 0:
      guard let moment = columns.moment, let action = columns.action else { return nil }
      self.init(.pending(Action(name: action, payload: columns.payload), until: moment))
    case 1:
      self.init(.open(until: columns.moment))
    default:
      return nil
    }
  }
}
