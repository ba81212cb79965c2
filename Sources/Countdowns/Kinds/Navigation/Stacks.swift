import TimerWheel

/// A stack exists while it has pages, and a page while its scope is open.
struct StackEntity: KeyedEntity {
  let key: [UInt8]
  var machine: NavigationStack
  /// Of the stack, or of its newest swipe.
  var generation: Generation
  let uid: UInt32
  var alarm: TimerWheel.Token?

  /// Its pages have owners, not the stack.
  var owner: Owner { .none }
}

/// The arguments of NAV PUSH, beyond the stack.
package struct PagePush: Sendable {
  package var page: [UInt8]
  package var edge = 0.0
  package var pops = true
  package var bar = NavigationStack.Bar.shown
  /// Of its scope; without them, those of the page below.
  package var opening = ScopeOpening()

  package init(page: [UInt8]) { self.page = page }
}

extension Event.Reason {
  package init(_ refusal: NavigationStack.Refusal) {
    switch refusal {
    case .transitioning: self = .transitioning
    case .root: self = .root
    case .disabled: self = .disabled
    case .outsideEdge: self = .outsideEdge
    case .direction: self = .direction
    case .notTransitioning: self = .notTransitioning
    }
  }
}

extension NavigationStack.Event {
  var name: Event.Name {
    switch self {
    case .willAppear: .willAppear
    case .didAppear: .didAppear
    case .willDisappear: .willDisappear
    case .didDisappear: .didDisappear
    case .swiping: .swiping
    case .progress: .progress
    case .finished: .finished
    case .cancelled, .timedOut: .cancelled
    case .dismissed: .dismissed
    }
  }
}
