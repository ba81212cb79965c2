/// Do it now if the session is open, else once it is: the action after a login.
///
///     (nothing) --CHECK--> pending --CHECK--> pending (the newest action alone)
///     pending --OPEN--> open, with an action to run
///     pending --CANCEL, TTL over, owner gone--> (nothing)
///     open with an action --TAKE--> taken --DONE--> open
///     taken --the connection closes--> open with an action
///     open with an action --DONE, the action's TTL over--> open
///     (nothing) --OPEN--> open --OPEN--> open --CLOSE, TTL over--> (nothing)
///
/// While it is open nothing is ever pending: an action either runs at once, or is pending
/// and run after the next OPEN, once.
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
    case open(until: Instant?, Run? = nil)
  }

  /// The action of a session that has opened, until it is done.
  package struct Run: Equatable, Sendable {
    package var action: Action
    /// When it is dropped, unless somebody runs it.
    package var until: Instant
    /// The connection that runs it.
    package var taker: UInt64?

    package init(_ action: Action, until: Instant, taker: UInt64? = nil) {
      self.action = action
      self.until = until
      self.taker = taker
    }
  }

  /// Why an action cannot be taken. Nothing has changed then.
  package enum Refusal: Equatable, Sendable {
    /// Another connection runs it.
    case taken
    /// The session is not open.
    case login
    case noAction
  }

  package enum Expiry: Equatable, Sendable {
    case dropped(Action, due: Instant)
    /// The session stays open.
    case notTaken(Action, due: Instant)
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

  /// - Returns: the action that was pending, to be run now.
  package mutating func open(for ttl: Interval?, at now: Instant) -> Action? {
    let end = ttl.map { now + $0 }
    switch phase {
    case .pending(let action, let until):
      phase = .open(until: end, Run(action, until: until))
      return action
    case .open(_, let run):
      phase = .open(until: end, run)
      return nil
    }
  }

  /// The connection runs the action, alone.
  package mutating func take(by connection: UInt64) -> Refusal? {
    guard case .open(let until, var run) = phase else { return .login }
    guard run != nil else { return .noAction }
    guard run?.taker == nil || run?.taker == connection else { return .taken }
    run?.taker = connection
    phase = .open(until: until, run)
    return nil
  }

  /// Somebody else may take the action.
  package mutating func release() {
    guard case .open(let until, var run) = phase else { return }
    run?.taker = nil
    phase = .open(until: until, run)
  }

  /// The action is done, or dropped.
  package mutating func endRun() {
    if case .open(let until, _) = phase { phase = .open(until: until) }
  }

  // MARK: What is so

  /// What has ended by `now`; nil if nothing has.
  package func expiry(at now: Instant) -> Expiry? {
    guard let due = nextExpiry, due <= now else { return nil }
    switch phase {
    case .pending(let action, _): return .dropped(action, due: due)
    case .open(_, let run?) where run.taker == nil && run.until == due:
      return .notTaken(run.action, due: due)
    case .open: return .closed(due: due)
    }
  }

  package var isOpen: Bool {
    if case .open = phase { true } else { false }
  }

  package var pending: Action? {
    if case .pending(let action, _) = phase { action } else { nil }
  }

  /// The action of the open session.
  package var run: Run? {
    if case .open(_, let run) = phase { run } else { nil }
  }

  /// When the pending action is dropped, or the session closes.
  package var end: Instant? {
    switch phase {
    case .pending(_, let until): until
    case .open(let until, _): until
    }
  }

  package var nextExpiry: Instant? {
    guard let run, run.taker == nil else { return end }
    return min(run.until, end ?? run.until)
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
    case .open(let until, let run):
      // `since` is when its action is dropped.
      (columns.phase, columns.moment, columns.since) = (1, until, run?.until)
      (columns.action, columns.payload) = (run?.action.name, run?.action.payload)
    }
    return columns
  }

  package init?(_ columns: GuardColumns) {
    switch columns.phase {
    case 0:
      guard let moment = columns.moment, let action = columns.action else { return nil }
      self.init(.pending(Action(name: action, payload: columns.payload), until: moment))
    case 1:
      guard let action = columns.action, let dropped = columns.since else {
        guard columns.action == nil, columns.since == nil else { return nil }
        self.init(.open(until: columns.moment))
        return
      }
      // Whoever ran it was connected to another daemon.
      let run = Run(Action(name: action, payload: columns.payload), until: dropped)
      self.init(.open(until: columns.moment, run))
    default:
      return nil
    }
  }
}
