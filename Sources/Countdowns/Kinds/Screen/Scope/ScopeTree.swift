import Memory

/// The tree of scopes: which are open, in which order they close, and the path of an event.
///
///     (nothing) --insert--> open --renewed lease--> open
///     open --beginClosing--> closing --all below it removed--> (nothing)
///     open --own lease or connection over, or that of a scope above--> doomed: as if closing
///
/// A scope never moves to another parent, so there are no cycles. Nothing here is recursive, and
/// steps are O(1), except those that climb the tree, which are O(depth).
///
/// Small numbers identify scopes; the caller assigns them.
package struct ScopeTree: ~Copyable {
  package static let nobody = UInt32.max

  /// `package`, because other modules specialize `PagedTable` for it.
  package struct Node {
    var parent = ScopeTree.nobody
    var firstChild = ScopeTree.nobody
    var lastChild = ScopeTree.nobody
    var nextSibling = ScopeTree.nobody
    var previousSibling = ScopeTree.nobody
    var childCount: UInt32 = 0
    /// 1 for a scope without a parent.
    var depth: UInt32 = 1
    /// Whether events continue to the parent; if not, the parent only owns the scope.
    var isRouted = false
    /// Whether this scope or one above it is closing, or was found to have ended.
    var isDoomed = false
    /// The connection that owns the scope; 0 if none.
    var connection: UInt64 = 0
    /// When the scope's own lease expires, in microseconds; `Int64.max` without a lease.
    var leaseEnd = Int64.max
    /// The TTL of that lease, in microseconds; 0 without one.
    var ttl: Int64 = 0
    /// The cached result of `isOpen`: the scope is open until this time, in microseconds, if `era`
    /// has not changed since.
    var openUntil = Int64.min
    var era: UInt32 = 0
  }

  private var nodes = PagedTable<Node>()
  /// Increases when a scope that was found open may have closed.
  private var era: UInt32 = 0
  /// The last suspend of the machine, which prolongs leases.
  package var suspension = Suspension()

  package init() {}

  package var count: Int { nodes.count }

  // MARK: Growing

  /// Adds a scope. Its number must be free, and `parent` must exist. O(1), amortized.
  package mutating func insert(
    _ scope: UInt32, under parent: UInt32?, isRouted: Bool = true, connection: UInt64? = nil,
    leaseEnd: Instant? = nil, ttl: Interval? = nil
  ) {
    var node = Node()
    node.connection = connection ?? 0
    node.leaseEnd = leaseEnd?.microseconds ?? .max
    node.ttl = ttl?.microseconds ?? 0
    if let parent {
      let above = nodes[parent]
      node.depth = above.depth + 1
      node.isRouted = isRouted
      node.isDoomed = above.isDoomed
      node.parent = parent
      node.previousSibling = above.lastChild
      if above.lastChild == Self.nobody {
        nodes[parent].firstChild = scope
      } else {
        nodes[above.lastChild].nextSibling = scope
      }
      nodes[parent].lastChild = scope
      nodes[parent].childCount += 1
    }
    nodes.insert(node, at: scope)
  }

  /// Sets when the lease of a scope expires; nil for no lease.
  ///
  /// - Parameter ttl: the time after which it would expire without being renewed; nil if nobody
  ///   renews it.
  package mutating func renew(_ scope: UInt32, until leaseEnd: Instant?, ttl: Interval? = nil) {
    let leaseEnd = leaseEnd?.microseconds ?? .max
    // Cached results of `isOpen` may outlast the new lease.
    if leaseEnd < end(of: nodes[scope]) { era &+= 1 }
    nodes[scope].leaseEnd = leaseEnd
    nodes[scope].ttl = ttl?.microseconds ?? 0
  }

  /// Prolongs a lease that was to expire, if a suspend does. Returns false if it has expired.
  package mutating func prolong(_ scope: UInt32, at now: Instant) -> Bool {
    let end = end(of: nodes[scope])
    guard end > now.microseconds else { return false }
    nodes[scope].leaseEnd = end
    return true
  }

  // MARK: Closing

  /// Closes a scope and all below it from now on. O(1).
  package mutating func beginClosing(_ scope: UInt32) {
    nodes[scope].isDoomed = true
    era &+= 1
  }

  /// Notes that a connection was closed. O(1).
  package mutating func connectionLeft() { era &+= 1 }

  /// Removes a scope that has nothing below it. O(1).
  package mutating func remove(_ scope: UInt32) {
    let node = nodes.remove(scope)
    precondition(node.firstChild == Self.nobody, "there is something below it")
    if node.parent != Self.nobody {
      if node.previousSibling == Self.nobody {
        nodes[node.parent].firstChild = node.nextSibling
      } else {
        nodes[node.previousSibling].nextSibling = node.nextSibling
      }
      if node.nextSibling == Self.nobody {
        nodes[node.parent].lastChild = node.previousSibling
      } else {
        nodes[node.nextSibling].previousSibling = node.previousSibling
      }
      nodes[node.parent].childCount -= 1
    }
  }

  // MARK: State

  package func contains(_ scope: UInt32) -> Bool { nodes.contains(scope) }

  package func parent(of scope: UInt32) -> UInt32? { optional(nodes[scope].parent) }
  package func firstChild(of scope: UInt32) -> UInt32? { optional(nodes[scope].firstChild) }
  package func depth(of scope: UInt32) -> Int { Int(nodes[scope].depth) }
  package func childCount(of scope: UInt32) -> Int { Int(nodes[scope].childCount) }
  package func isRouted(_ scope: UInt32) -> Bool { nodes[scope].isRouted }
  package func leaseEnd(of scope: UInt32) -> Instant? {
    let end = end(of: nodes[scope])
    return end == .max ? nil : Instant(microseconds: end)
  }

  /// Returns when a lease expires, in microseconds, also after a suspend of the machine.
  private func end(of node: Node) -> Int64 {
    suspension.end(
      of: Instant(microseconds: node.leaseEnd), lasting: Interval(microseconds: node.ttl)
    ).microseconds
  }

  private func optional(_ scope: UInt32) -> UInt32? { scope == Self.nobody ? nil : scope }

  /// Returns whether a scope and all above it are open: no lease is over, no owning connection
  /// closed, none closing. O(depth) the first time after something may have ended, else O(1).
  package mutating func isOpen(
    _ scope: UInt32, at now: Instant, _ liveness: borrowing some ConnectionLiveness & ~Copyable
  ) -> Bool {
    var until = Int64.max
    var top = scope
    while true {
      let node = nodes[top]
      let isAlive = node.connection == 0 || liveness.isAlive(connection: node.connection)
      let leaseEnd = end(of: node)
      guard !node.isDoomed, now.microseconds < leaseEnd, isAlive else {
        doom(from: scope, upTo: top)
        return false
      }
      if node.era == era, now.microseconds < node.openUntil {
        until = min(until, node.openUntil)
        break
      }
      until = min(until, leaseEnd)
      guard node.parent != Self.nobody else { break }
      top = node.parent
    }
    // For scopes further up this can be too early: they are then merely checked again.
    let era = era
    forEach(from: scope, upTo: top) { node in
      node.era = era
      node.openUntil = until
    }
    return true
  }

  /// Marks scopes as closed for good, so that the next check need not climb as far.
  private mutating func doom(from scope: UInt32, upTo top: UInt32) {
    forEach(from: scope, upTo: top) { $0.isDoomed = true }
  }

  private mutating func forEach(
    from scope: UInt32, upTo top: UInt32, _ body: (inout Node) -> Void
  ) {
    var next = scope
    while true {
      body(&nodes[next])
      guard next != top else { return }
      next = nodes[next].parent
    }
  }

  /// Returns the highest scope, from this one up, whose own lease or connection has ended.
  /// O(depth).
  package func cause(
    of scope: UInt32, at now: Instant, _ liveness: borrowing some ConnectionLiveness & ~Copyable
  ) -> (scope: UInt32, Cause)? {
    var found: (UInt32, Cause)?
    var next = scope
    while next != Self.nobody {
      let node = nodes[next]
      if node.connection != 0, !liveness.isAlive(connection: node.connection) {
        found = (next, .connectionLeft)
      } else if end(of: node) <= now.microseconds {
        found = (next, .leaseOver)
      }
      next = node.parent
    }
    return found
  }

  package enum Cause: Equatable, Sendable { case leaseOver, connectionLeft }

  /// Returns whether `scope` is `other` or below it. O(depth).
  package func isBelow(_ scope: UInt32, _ other: UInt32) -> Bool {
    var next = scope
    while next != Self.nobody {
      if next == other { return true }
      next = nodes[next].parent
    }
    return false
  }

  /// Returns the path of an event: from `scope` up to the last scope it is routed to. O(depth).
  package func path(from scope: UInt32) -> [UInt32] {
    var path = [scope]
    var next = scope
    while nodes[next].isRouted {
      next = nodes[next].parent
      path.append(next)
    }
    return path
  }

  /// Returns the scope after this one within the tree of `root`, parents before their children; nil
  /// after the last. O(depth); O(1), amortized, over a whole tree.
  package func next(after scope: UInt32, within root: UInt32) -> UInt32? {
    if let child = firstChild(of: scope) { return child }
    var next = scope
    while next != root {
      if let sibling = optional(nodes[next].nextSibling) { return sibling }
      next = nodes[next].parent
    }
    return nil
  }
}
