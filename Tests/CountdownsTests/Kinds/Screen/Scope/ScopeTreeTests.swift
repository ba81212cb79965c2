import Countdowns
import Testing

/// The connections that exist, as the test sets them.
private struct Room: ConnectionLiveness {
  var connections: Set<UInt64> = [1, 2]
  func isAlive(connection: UInt64) -> Bool { connections.contains(connection) }
}

/// The shape of the tree, and which scopes are open.
@Suite final class ScopeTreeTests {
  private var tree = ScopeTree()

  /// Replaces `#expect`, which cannot expand calls on the tree, as it is not copyable.
  private func expect(_ condition: Bool, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(condition, sourceLocation: sourceLocation)
  }
  private var room = Room()
  private let now = Instant(microseconds: 1_000)
  private let later = Instant(microseconds: 2_000)

  /// Builds a tree: 0 above 1 and 3, 1 above 2.
  init() {
    tree.insert(0, under: nil)
    tree.insert(1, under: 0)
    tree.insert(2, under: 1)
    tree.insert(3, under: 0)
  }

  private func isOpen(_ scope: UInt32, at now: Instant) -> Bool {
    tree.isOpen(scope, at: now, room)
  }

  @Test func theTreeKnowsDepthChildrenAndTheRouteOfAnEvent() {
    expect(tree.depth(of: 0) == 1)
    expect(tree.depth(of: 2) == 3)
    expect(tree.childCount(of: 0) == 2)
    expect(tree.firstChild(of: 0) == 1)
    expect(tree.parent(of: 3) == 0)
    expect(tree.path(from: 2) == [2, 1, 0])
    expect(tree.isBelow(2, 0))
    expect(tree.isBelow(2, 2))
    expect(!tree.isBelow(2, 3))
  }

  @Test func parentsComeBeforeChildrenSiblingsInOrderOfOpening() {
    var order: [UInt32] = []
    var next: UInt32? = 0
    while let scope = next {
      order.append(scope)
      next = tree.next(after: scope, within: 0)
    }
    #expect(order == [0, 1, 2, 3])
    expect(tree.next(after: 2, within: 1) == nil)
  }

  @Test func removingTheFirstMiddleOrLastSiblingKeepsTheOthersInOrder() {
    tree.insert(4, under: 0)
    tree.insert(5, under: 0)
    tree.remove(3)
    expect(tree.next(after: 2, within: 0) == 4)
    tree.remove(5)
    expect(tree.next(after: 4, within: 0) == nil)
    tree.remove(2)
    tree.remove(1)
    expect(tree.firstChild(of: 0) == 4)
    expect(tree.childCount(of: 0) == 1)
    expect(tree.count == 2)
  }

  @Test func anOwnerIsAboveItsScopesButDoesNotGetTheirEvents() {
    tree.insert(4, under: 2, isRouted: false)
    tree.insert(5, under: 4)
    expect(tree.path(from: 5) == [5, 4])
    tree.beginClosing(0)
    #expect(!isOpen(5, at: now))
  }

  @Test func closingAScopeClosesEverythingBelowItAtOnceAndNothingBesideIt() {
    #expect(isOpen(2, at: now))
    tree.beginClosing(1)
    #expect(!isOpen(2, at: now))
    #expect(!isOpen(1, at: now))
    #expect(isOpen(3, at: now))
    #expect(isOpen(0, at: now))
  }

  @Test func anExpiredLeaseEndsEverythingBelowAndEarlierAnswersAreNotReused() {
    tree.insert(4, under: 3, leaseEnd: later)
    tree.insert(5, under: 4)
    #expect(isOpen(5, at: now))
    #expect(isOpen(5, at: Instant(microseconds: 1_999)))
    tree.renew(4, until: Instant(microseconds: 3_000))
    #expect(isOpen(5, at: later))
    #expect(!isOpen(5, at: Instant(microseconds: 3_000)))
    expect(tree.cause(of: 5, at: Instant(microseconds: 3_000), room)?.scope == 4)
  }

  @Test func aShortenedLeaseTakesEffectAtOnce() {
    tree.insert(4, under: nil, leaseEnd: Instant(microseconds: 9_000))
    tree.insert(5, under: 4)
    #expect(isOpen(5, at: now))
    tree.renew(4, until: later)
    #expect(!isOpen(5, at: later))
  }

  @Test func aClosedConnectionEndsItsScopesAndEverythingBelowThem() {
    tree.insert(4, under: 3, connection: 2)
    tree.insert(5, under: 4)
    #expect(isOpen(5, at: now))
    room.connections = [1]
    tree.connectionLeft()
    #expect(!isOpen(5, at: now))
    #expect(isOpen(3, at: now))
    expect(tree.cause(of: 5, at: now, room)! == (4, .connectionLeft))
  }

  @Test func ofSeveralCausesTheHighestOneIsReported() {
    tree.insert(4, under: 2, leaseEnd: now)
    tree.insert(5, under: 4, connection: 9)
    expect(tree.cause(of: 5, at: now, room)! == (4, .leaseOver))
    expect(tree.cause(of: 2, at: now, room) == nil)
  }

  @Test func aFreedNumberCanBeReused() {
    tree.beginClosing(2)
    tree.remove(2)
    tree.insert(2, under: 3)
    #expect(isOpen(2, at: now))
    expect(tree.depth(of: 2) == 3)
  }
}

/// Which handler takes an event.
@Suite struct HandlersTests {
  private func taker(
    _ handlers: Handlers, _ event: String, capturing: Bool = false, deaf: Set<UInt64> = []
  ) -> UInt64? {
    handlers.taker(of: Array(event.utf8), capturing: capturing) { !deaf.contains($0) }
  }

  private func handler(
    _ connection: UInt64, _ event: String, captures: Bool = false
  ) -> Handlers.Handler {
    Handlers.Handler(connection: connection, event: Array(event.utf8), captures: captures)
  }

  @Test func theFirstHandlerThatRegisteredTakesTheEventByNameOrStarOnlyInItsPhase() {
    var handlers = Handlers()
    let areNew = [
      handler(1, "tap"), handler(2, "*"), handler(3, "tap", captures: true), handler(1, "tap"),
    ].map { handlers.add($0) }
    #expect(areNew == [true, true, true, false])
    #expect(taker(handlers, "tap") == 1)
    #expect(taker(handlers, "swipe") == 2)
    #expect(taker(handlers, "tap", capturing: true) == 3)
    #expect(taker(handlers, "swipe", capturing: true) == nil)
  }

  @Test func aHandlerThatCannotReceiveIsSkipped() {
    var handlers = Handlers()
    _ = handlers.add(handler(1, "tap"))
    _ = handlers.add(handler(2, "tap"))
    #expect(taker(handlers, "tap", deaf: [1]) == 2)
    #expect(taker(handlers, "tap", deaf: [1, 2]) == nil)
  }

  @Test func removingAHandlerRemovesBothPhasesOfThatEventAndNoOtherHandler() {
    var handlers = Handlers()
    _ = handlers.add(handler(1, "tap"))
    _ = handlers.add(handler(1, "tap", captures: true))
    _ = handlers.add(handler(1, "*"))
    _ = handlers.add(handler(2, "tap"))
    let removed = (0..<2).map { _ in handlers.remove(connection: 1, event: Array("tap".utf8)) }
    #expect(removed == [2, 0])
    #expect(handlers.count == 2)
    handlers.removeAll(of: 1)
    #expect(handlers.connections == [2])
  }
}
