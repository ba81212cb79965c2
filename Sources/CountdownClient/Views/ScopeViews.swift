/// The status of a scope.
public struct ScopeView: EntityView {
  public static let kind = CountdownEvent.Kind.scope

  public enum State: String, Sendable { case open, closed }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The scope above; nil at the top.
  public var parent: String? { fields["parent"] }
  /// 1 at the top.
  public var depth: Int { fields["depth"] ?? 0 }
  public var children: Int { fields["children"] ?? 0 }
  /// How many entities it owns, scopes not included.
  public var owned: Int { fields["owned"] ?? 0 }
  /// How many events it has handlers for.
  public var handlers: Int { fields["handlers"] ?? 0 }
  /// The length of its lease; nil without one.
  public var ttl: Duration? { fields["ttl_ms"] }
  /// The time until its lease expires.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}

/// The status of a navigation stack; its `generation` is that of the newest transition that took
/// time.
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

  /// The navigation bar.
  public enum Bar: String, Sendable { case shown, hidden }

  /// What a page can want of the bar.
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
  /// The transition that is in progress; nil if none is.
  public var transition: Transition? { fields["transition"] }
  /// The progress of the transition, from 0 to 1.
  public var fraction: Double? { fields["fraction"] }
  /// The time until the transition is over, or until the daemon cancels the swipe unless the client
  /// reports progress.
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
    /// After it has disappeared, unless it failed.
    case always
    case never
    /// Also if it is visible, or has failed.
    case every
  }

  /// Why the daemon refused a request: `not-loading`, `not-failed` or `loading`.
  public var reason: String? { fields["reason"] }
  /// Whether to show the load.
  public var isAnimated: Bool { fields["animated"] ?? false }
  public var isVisible: Bool { fields["visible"] ?? false }
  public var items: Int? { fields["items"] }
  /// The message of the last load: why it failed, or what to show with it.
  public var message: String? { fields["message"] }
  /// Where the HUD appears while the page loads.
  public var screen: String? { fields["screen"] }
  /// The time until the load fails.
  public var remainingTime: Duration? { fields["remaining_ms"] }
}
