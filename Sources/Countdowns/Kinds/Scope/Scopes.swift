import TimerWheel

/// All scopes, their tree, and those that are closing.
struct Scopes: ~Copyable {
  var table = EntityTable<ScopeEntity>()
  var tree = ScopeTree()
  var closings = Closings()

  var count: Int { table.count }

  /// A scope that is closing with all below it, in the background, from the bottom up.
  struct Closing {
    let root: UInt32
    let generation: Generation
    let reason: Event.Reason
    /// What is looked at next: the root, or below it.
    var cursor: UInt32
  }

  /// A stack: the newest continues first. It can be long, as when many leases are over at one
  /// moment.
  struct Closings: ~Copyable {
    private var all = PagedTable<Closing>()

    var isEmpty: Bool { all.isEmpty }

    private var last: UInt32 { UInt32(all.count - 1) }

    /// There must be one.
    var newest: Closing {
      _read { yield all[last] }
      _modify { yield &all[last] }
    }

    mutating func begin(_ closing: Closing) { all.insert(closing, at: UInt32(all.count)) }

    mutating func endNewest() { all.remove(last) }
  }

  /// Whether that scope is still open, and not another one at its index.
  mutating func isOpen(
    _ name: OwnerName, at now: Instant, _ connections: borrowing Connections
  ) -> Bool {
    isThere(name) && tree.isOpen(name.index, at: now, connections)
  }

  /// Whether that scope has not been removed.
  func isThere(_ name: OwnerName) -> Bool {
    table.contains(name.index) && table[name.index].generation == name.generation
  }
}

struct ScopeEntity: KeyedEntity {
  let key: [UInt8]
  let generation: Generation
  /// What it closes with, besides its parent.
  let owner: Owner
  let uid: UInt32
  /// The length of a lease; nil without one.
  var ttl: Interval?
  var alarm: TimerWheel.Token?
  /// Made when it first owns something.
  var name: OwnerName?
  var handlers = Handlers()
  /// Where it is a page's.
  var stack: UInt32?
  /// Whether it is closing with all below it.
  var isClosing = false
  /// What it owned and has not lost yet, while it is being closed. It is here because a scope above
  /// may be closed before this is done, and then continues with it.
  var ownedLeft: EntitySet.Iterator?
}

/// Why a command about scopes is refused.
package enum ScopeProblem: Error, Equatable {
  /// No scope of that name, named as a parent or an owner.
  case noScope([UInt8])
  /// It exists with another parent; nil: with none.
  case otherParent([UInt8]?)
  /// The parent would be below its own child.
  case parentBelow([UInt8])
  /// It exists with another owner.
  case otherOwner(Owner)
  /// It closes with its parent anyway.
  case parentAndOwner
  /// A page opens its own scope, and there is one of that name.
  case isThere([UInt8])
  /// A page that is pushed with a load opens its own, and there is one of that name.
  case pageIsThere([UInt8])
  /// Something of that name is still being closed.
  case isClosing([UInt8])
  /// It was opened without a lease, so there is none to renew.
  case noLease
  /// A listing cannot continue: the next scope has closed.
  case cursorIsGone
}
