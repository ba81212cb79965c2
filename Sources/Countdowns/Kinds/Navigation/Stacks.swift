import TimerWheel

/// It lives as long as it has pages, and these as long as their scopes.
struct StackEntity: KeyedEntity {
  let key: [UInt8]
  var machine: NavigationStack
  /// Of the stack, or of the swipe that began last.
  var generation: Generation
  let uid: UInt32
  var alarm: TimerWheel.Token?
}

/// What is said of a navigation stack.
package struct StackView: Equatable, Sendable {
  package enum State: String, Sendable { case settled, transitioning, empty }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// From the root to the top.
  package var pages: [[UInt8]]
  package var bar: NavigationStack.Bar
  /// How far a swipe is.
  package var fraction: Double?
  /// Until the swipe is cancelled, unless something is heard of it.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  /// In events.
  package var occurrence: NavigationStack.Occurrence?

  init(_ entity: StackEntity, at now: Moment) {
    self.init(entity.key, entity.machine, entity.generation, at: now)
  }

  init(
    _ key: [UInt8], _ machine: NavigationStack, _ generation: Generation,
    _ occurrence: NavigationStack.Occurrence? = nil, at now: Moment
  ) {
    self.key = key
    self.generation = generation
    self.occurrence = occurrence
    state =
      machine.transition != nil ? .transitioning : machine.pages.isEmpty ? .empty : .settled
    pages = machine.pages.map(\.scope.key)
    bar = machine.bar
    fraction = machine.transition?.fraction
    let until = machine.nextExpiry
    remainingMS = until.map { max($0 - now.boot, .zero).millisecondsRoundedUp }
    deadlineUnixMS = until.map { now.unixMilliseconds(of: $0) }
    nowUnixMS = now.wall.microseconds / 1_000
  }
}

/// What NAV PUSH says, beyond the stack.
package struct PagePush: Sendable {
  package var page: [UInt8]
  package var edge = 0.0
  package var pops = true
  package var bar = NavigationStack.Bar.shown
  /// Of its scope; as that of the page below where it says nothing.
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
