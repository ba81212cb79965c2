import Countdowns
import Simulation

extension Desk {
  @discardableResult
  func open(
    _ key: String, below parent: String? = nil, owner: Owner? = nil, ttl: Int64? = nil,
    by connection: UInt64 = 1
  ) throws -> ScopeView {
    var opening = ScopeOpening()
    opening.parent = parent.map { Array($0.utf8) }
    opening.owner = owner
    opening.ttl = ttl.map { .milliseconds($0) }
    return try with(key) {
      try engine.openScope($0, opening, by: client(connection), at: now)
    }
  }

  @discardableResult
  func close(_ key: String, _ generation: Int64? = nil) throws -> Bool {
    try with(key) {
      try engine.closeScope($0, generation: generation.map(Generation.init), at: now)
    }
  }

  @discardableResult
  func touch(_ key: String, ttl: Int64? = nil) throws -> ScopeView {
    try with(key) {
      try engine.touchScope($0, ttl: ttl.map { .milliseconds($0) }, generation: nil, at: now)
    }
  }

  func scope(_ key: String) -> ScopeView? { with(key) { engine.scope($0, at: now) } }

  /// Returns the owner that `OWNER scope:KEY` names.
  func scoped(_ key: String) throws -> Owner {
    try with(key) { try engine.scopeOwner($0, at: now) }
  }

  @discardableResult
  func handle(
    _ key: String, _ event: String, capture: Bool = false, by connection: UInt64
  ) throws -> Bool {
    try with(key) {
      try engine.handle(
        $0, Array(event.utf8), captures: capture, by: client(connection), at: now)
    }
  }

  @discardableResult
  func unhandle(_ key: String, _ event: String, by connection: UInt64) -> Bool {
    with(key) { engine.unhandle($0, Array(event.utf8), by: client(connection), at: now) }
  }

  /// Returns the scope that took the event. All connections except `deaf` ones can receive events.
  @discardableResult
  func emit(_ event: String, for key: String, deaf: Set<UInt64> = []) throws -> String? {
    try with(key) {
      try engine.emit(Array(event.utf8), payload: nil, for: $0, at: now) { !deaf.contains($0) }
    }.map { String(decoding: $0, as: UTF8.self) }
  }
}
