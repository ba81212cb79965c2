/// The status of a scope.
public struct ScopeView: EntityView {
  public static let kind = CountdownEvent.Kind.scope

  public enum State: String, Sendable { case open, closed }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The scope above; nil at the top.
  public var parent: String? { fields["parent"] }
  /// The depth in the tree; 1 at the top.
  public var depth: Int { fields["depth"] ?? 0 }
  public var children: Int { fields["children"] ?? 0 }
  /// The number of entities that the scope owns, without scopes.
  public var owned: Int { fields["owned"] ?? 0 }
  /// The number of events that have a handler at the scope.
  public var handlers: Int { fields["handlers"] ?? 0 }
  /// The length of its lease; nil without one.
  public var ttl: Duration? { fields["ttl_ms"] }
  /// The time until its lease expires; nil without one.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}

/// The status of a navigation stack; its `generation` is that of the newest transition that was not
/// instant.
public struct NavigationView: EntityView {
  public static let kind = CountdownEvent.Kind.navigation

  public enum State: String, Sendable { case settled, transitioning, empty }

  /// Why the daemon refused a request.
  public enum Reason: String, Sendable {
    case transitioning, root, presented, disabled, direction
    case outsideEdge = "outside-edge"
    case notTransitioning = "not-transitioning"
    case noPage = "no-page"
  }

  /// Whether the navigation bar is shown.
  public enum Bar: String, Sendable { case shown, hidden }

  /// The bar that a page wants; `any` leaves it unchanged.
  public enum BarWish: String, Sendable { case shown, hidden, any }

  public enum Transition: String, Sendable { case push, present, pop, swipe }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  public var reason: Reason? { fields["reason"] }
  /// The page on top; in events the page that the event is about.
  public var page: String? { fields["page"] }
  /// The pages from the root up; empty in most events.
  public var pages: [String] { fields["pages"] ?? [] }
  public var bar: Bar? { fields["bar"] }
  /// The transition in progress; nil if there is none.
  public var transition: Transition? { fields["transition"] }
  /// The progress of the transition, from 0 to 1.
  public var fraction: Double? { fields["fraction"] }
  /// The time until the transition ends, or until the daemon cancels a swipe without progress.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}

/// The status of a page and its load; its `generation` is new with each load.
public struct PageView: EntityView {
  public static let kind = CountdownEvent.Kind.page

  public enum State: String, Sendable {
    case unknown, loading, refreshing, content, empty, error
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// Whether a page loads when it appears again, unless it is loading.
  public enum Refresh: String, Sendable {
    /// Loads if the page has disappeared in between, unless its load failed.
    case always
    case never
    /// Loads each time, even if the page is visible or its load failed.
    case every
  }

  /// Why the daemon refused a request: `not-loading`, `not-failed` or `loading`.
  public var reason: String? { fields["reason"] }
  /// Whether to show the load.
  public var isAnimated: Bool { fields["animated"] ?? false }
  public var isVisible: Bool { fields["visible"] ?? false }
  public var items: Int? { fields["items"] }
  /// The message of the last load that ended, such as why it failed.
  public var message: String? { fields["message"] }
  /// Where the HUD appears while the page loads.
  public var screen: String? { fields["screen"] }
  /// The time until the load times out.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}
