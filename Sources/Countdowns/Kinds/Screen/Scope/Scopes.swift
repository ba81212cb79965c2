import Memory
import TimerWheel

/// All scopes, their tree, and the closings in progress.
final class ScopeStore: TableStore {
  let table = EntityTable<ScopeEntity>()
  var tree = ScopeTree()
  var closings = Closings()

  /// The closing of a scope and all below it, in the background, from the bottom up.
  struct Closing {
    let root: UInt32
    let generation: Generation
    let reason: Reason
    /// The next scope to visit: the root, or one below it.
    var cursor: UInt32
  }

  /// The closings in progress, as a stack: the newest continues first. There can be many, for
  /// example when many leases expire at once.
  struct Closings: ~Copyable {
    private var all = PagedTable<Closing>()

    var isEmpty: Bool { all.isEmpty }

    private var last: UInt32 { UInt32(all.count - 1) }

    /// The newest closing; there must be one.
    var newest: Closing {
      _read { yield all[last] }
      _modify { yield &all[last] }
    }

    mutating func begin(_ closing: Closing) { all.insert(closing, at: UInt32(all.count)) }

    mutating func endNewest() { all.remove(last) }

    /// All closings, the oldest first.
    var list: [Closing] { (0..<UInt32(all.count)).map { all[$0] } }
  }

  /// Returns whether the named scope is open; another scope at its index does not count.
  func isOpen(
    _ name: OwnerName, at now: Instant, _ connections: borrowing Connections
  ) -> Bool {
    isAlive(name) && tree.isOpen(name.index, at: now, connections)
  }

  /// Returns whether the named scope has not been removed.
  func isAlive(_ name: OwnerName) -> Bool {
    table.contains(name.index) && table[name.index].generation == name.generation
  }
}

struct ScopeEntity: KeyedEntity {
  let key: [UInt8]
  var generation: Generation
  /// The owner with which the scope closes, besides its parent.
  var owner: Owner
  var uid: UInt32
  /// The duration of the lease; nil without one.
  var ttl: Interval?
  var alarm: TimerWheel.Token?
  /// The name of the scope as an owner, created on first use.
  var name: OwnerName?
  var handlers = Handlers()
  /// The navigation stack, if the scope is that of a page.
  var stack: UInt32?
  /// Whether the scope is closing with all below it.
  var isClosing = false
  /// The owned entities still to cancel while the scope is closing. They are stored here because a
  /// scope above may begin to close meanwhile, and its closing then continues with them.
  var ownedLeft: EntitySet.Iterator?

  /// Nil: the tree has the lease.
  var nextExpiry: Instant? { nil }

  /// An owning scope needs no entry: the scopes it owns are below it in the tree.
  func forEachOwner(_ body: (Owner) -> Void) {
    if case .connection = owner { body(owner) }
    for handler in handlers.connections { body(.connection(handler)) }
  }
}

/// Why a command about scopes is refused.
package enum ScopeProblem: Error, Equatable {
  /// The scope named as a parent or an owner does not exist.
  case noScope([UInt8])
  /// The scope exists with this other parent, or without one (nil).
  case otherParent([UInt8]?)
  /// The parent would be below its own child.
  case parentBelow([UInt8])
  /// The scope exists with this other owner.
  case otherOwner(Owner)
  /// A parent and a scope as owner were given, but a scope closes with its parent anyway.
  case parentAndOwner
  /// A page opens its own scope, but one with this name exists.
  case exists([UInt8])
  /// A push with PAGE creates the page, but one with this name exists.
  case pageExists([UInt8])
  /// A scope with this name is still being closed.
  case isClosing([UInt8])
  /// The scope was opened without a lease, so there is none to renew.
  case noLease
  /// A listing cannot continue: the next scope has closed.
  case cursorIsGone
}
