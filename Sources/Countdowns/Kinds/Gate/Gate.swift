/// Runs an action now if the session is open, otherwise once it opens: the action after a login.
///
///     (nothing) --CHECK--> pending --CHECK--> pending (the newest action alone)
///     pending --OPEN--> open, with an action to run
///     pending --CANCEL, TTL over, owner gone--> (nothing)
///     open with an action --TAKE--> taken --DONE--> open
///     taken --the connection closes--> open with an action
///     open with an action --DONE, the action's TTL over--> open
///     (nothing) --OPEN--> open --OPEN--> open --CLOSE, TTL over--> (nothing)
///
/// In an open session nothing is ever pending: an action either runs at once, or waits for the next
/// OPEN and runs once.
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
    /// Open until CLOSE if `until` is nil.
    case open(until: Instant?, Run? = nil)
  }

  /// The action to run in an open session, until it is done.
  package struct Run: Equatable, Sendable {
    package var action: Action
    /// When the action is dropped, unless a connection runs it.
    package var until: Instant
    /// The connection that runs the action.
    package var taker: UInt64?

    package init(_ action: Action, until: Instant, taker: UInt64? = nil) {
      self.action = action
      self.until = until
      self.taker = taker
    }
  }

  package enum Expiry: Equatable, Sendable {
    case dropped(Action, due: Instant)
    /// The action is dropped; the session stays open.
    case notTaken(Action, due: Instant)
    case closed(due: Instant)
  }

  package private(set) var phase: Phase

  /// Creates a closed gate, with an action that waits for OPEN.
  package init(waitingFor action: Action, for ttl: Interval, at now: Instant) {
    phase = .pending(action, until: now + ttl)
  }

  /// Creates an open gate: for `ttl`, or until CLOSE if nil.
  package init(openFor ttl: Interval?, at now: Instant) {
    phase = .open(until: ttl.map { now + $0 })
  }

  // MARK: Inputs

  /// - Returns: whether the action may run at once; otherwise it is pending now.
  package mutating func check(_ action: Action, for ttl: Interval, at now: Instant) -> Bool {
    if isOpen { return true }
    phase = .pending(action, until: now + ttl)
    return false
  }

  /// - Returns: the action that was pending, which is to run now.
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

  /// Gives the action to one connection. Returns why not, or nil if it was given.
  package mutating func take(by connection: UInt64) -> Reason? {
    guard case .open(let until, var run) = phase else { return .login }
    guard run != nil else { return .noAction }
    guard run?.taker == nil || run?.taker == connection else { return .taken }
    run?.taker = connection
    phase = .open(until: until, run)
    return nil
  }

  /// Lets another connection take the action.
  package mutating func release() {
    guard case .open(let until, var run) = phase else { return }
    run?.taker = nil
    phase = .open(until: until, run)
  }

  /// Removes the action, which is done or dropped.
  package mutating func endRun() {
    if case .open(let until, _) = phase { phase = .open(until: until) }
  }

  // MARK: State

  /// Returns what has ended by `now`; nil if nothing has.
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

  /// The action to run in the open session.
  package var taker: UInt64? { run?.taker }
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
  package static var blank: Gate { Gate(openFor: nil, at: .zero) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    var (isOpen, until) = (isOpen, end)
    var (action, run) = (pending, run)
    visitor.field("open", &isOpen)
    visitor.instant("until", &until)
    if isOpen {
      visitor.optional("run", &run, blank: Run(.blank, until: .zero)) { $1.fields(&$0) }
    } else {
      visitor.optional("action", &action, blank: .blank) { $1.fields(&$0) }
    }
    guard Visitor.isReading else { return }
    if isOpen {
      phase = .open(until: until, run)
    } else if let action, let until {
      phase = .pending(action, until: until)
    } else {
      visitor.fail()
    }
  }
}

extension Gate.Action: Stored {
  package static var blank: Gate.Action { Gate.Action(name: []) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.field("action", &name)
    visitor.field("payload", &payload)
  }
}

extension Gate.Run {
  fileprivate mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    action.fields(&visitor)
    visitor.instant("dropped", &until)
    visitor.optional("taker", &taker, blank: 0) { $0.number("connection", &$1) }
  }
}

extension GateKind {
  static func stored(_ state: Entity) -> Entity? {
    guard state.owner == .none else { return nil }
    var state = state
    state.machine.release()
    return state
  }
}
