import TimerWheel

/// A stack exists while it has pages, and a page while its scope is open.
package struct StackEntity: KeyedEntity {
  let key: [UInt8]
  var machine: NavigationStack
  /// The generation of the stack, or of its newest transition that takes time.
  package var generation: Generation
  var uid: UInt32
  var alarm: TimerWheel.Token?

  /// None: pages have owners, stacks do not.
  var owner: Owner { .none }
  var nextExpiry: Instant? { machine.nextExpiry }
}

/// The arguments of NAV PUSH and NAV PRESENT, beyond the stack.
package struct PagePush: Sendable {
  package var page: [UInt8]
  package var edge = 0.0
  package var pops = true
  package var bar: NavigationStack.Bar?
  package var style = NavigationStack.Style.pushed
  package var pace = NavigationStack.Pace.atOnce
  /// The load options of the page; nil if it does not load.
  package var appearance: PageAppearance?
  /// The parent and owner of the page's scope; if both are nil, those of the page below.
  package var opening = ScopeOpening()

  package init(page: [UInt8]) { self.page = page }
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
    case .updated: .updated
    }
  }
}
