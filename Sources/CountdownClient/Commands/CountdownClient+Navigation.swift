/// Navigation stacks with a swipe back that can be cancelled.
extension CountdownClient {
  /// Pushes a page and opens a scope of that name; the first page creates the stack.
  ///
  /// - Parameters:
  ///   - edge: how far from the edge a swipe back may begin, in points; nil: anywhere.
  ///   - canBeSwipedAway: whether a swipe back may begin at all.
  ///   - bar: whether the page wants the navigation bar; nil: it leaves the bar unchanged.
  ///   - duration: how long the transition takes; nil: it is over at once.
  ///   - load: the loading options of a page that loads; nil: the page does not load.
  ///   - parent: the scope above; nil: that of the page below. `owner` has the same default.
  @discardableResult
  public func pushPage(
    _ page: String, on stack: String, edge: Double? = nil, canBeSwipedAway: Bool = true,
    bar: NavigationView.Bar? = nil, duration: TransitionDuration? = nil, parent: String? = nil,
    owner: Owner? = nil, load: PageLoadOptions? = nil
  ) async throws -> NavigationView {
    try await view(
      "NAV", "PUSH", stack, page,
      options: [
        "EDGE": edge, "POP": canBeSwipedAway ? nil : "off", "BAR": bar?.rawValue,
        "DURATION": duration?.word, "PARENT": parent, "OWNER": owner, "PAGE": load != nil,
        "REFRESH": load?.refresh?.rawValue, "TIMEOUT": load?.timeout, "SCREEN": load?.screen,
        "GRACE": load?.grace, "MIN": load?.minimum,
      ])
  }

  /// Presents a page: it cannot be swiped away, and its events have the style `presented`.
  @discardableResult
  public func presentPage(
    _ page: String, on stack: String, bar: NavigationView.Bar? = nil,
    duration: TransitionDuration? = nil, parent: String? = nil, owner: Owner? = nil,
    load: PageLoadOptions? = nil
  ) async throws -> NavigationView {
    try await view(
      "NAV", "PRESENT", stack, page,
      options: [
        "BAR": bar?.rawValue, "DURATION": duration?.word, "PARENT": parent, "OWNER": owner,
        "PAGE": load != nil, "REFRESH": load?.refresh?.rawValue, "TIMEOUT": load?.timeout,
        "SCREEN": load?.screen, "GRACE": load?.grace, "MIN": load?.minimum,
      ])
  }

  /// Changes options of a page; nil leaves an option unchanged.
  @discardableResult
  public func setPage(
    _ page: String, on stack: String, edge: Double? = nil, canBeSwipedAway: Bool? = nil,
    bar: NavigationView.BarWish? = nil
  ) async throws -> NavigationView {
    try await view(
      "NAV", "SET", stack, page,
      options: [
        "EDGE": edge, "POP": canBeSwipedAway.map { $0 ? "on" : "off" }, "BAR": bar?.rawValue,
      ])
  }

  /// Pops the top page; at the end of the transition, the daemon cancels what the page owns.
  @discardableResult
  public func popPage(
    of stack: String, duration: TransitionDuration? = nil, generation: Int? = nil
  ) async throws -> NavigationView {
    try await view(
      "NAV", "POP", stack, options: ["DURATION": duration?.word, "GENERATION": generation])
  }

  /// Pops all pages but the first.
  @discardableResult
  public func popToRoot(
    of stack: String, generation: Int? = nil
  ) async throws -> NavigationView {
    try await view("NAV", "ROOT", stack, options: ["GENERATION": generation])
  }

  /// Removes a stack with all its pages. Returns whether there was one.
  @discardableResult
  public func dismissStack(
    _ stack: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("NAV", "DISMISS", stack, options: ["GENERATION": generation])
  }

  /// Begins a swipe back if it is `accepted`; pass the view's generation to finish or cancel it.
  ///
  /// - Parameters:
  ///   - x: where the swipe begins, in points from the edge.
  ///   - dx: how far the swipe has moved, in points; positive is back.
  ///   - timeout: the time without progress after which the daemon cancels the swipe; nil: as
  ///     configured.
  public func beginSwipe(
    on stack: String, x: Double, dx: Double, timeout: Duration? = nil
  ) async throws -> NavigationView {
    try await view("NAV", "SWIPE", stack, options: ["X": x, "DX": dx, "TIMEOUT": timeout])
  }

  /// Sets the progress of the transition, from 0 to 1.
  @discardableResult
  public func setTransitionProgress(
    on stack: String, fraction: Double, generation: Int? = nil
  ) async throws -> NavigationView {
    try await view("NAV", "PROGRESS", stack, fraction, options: ["GENERATION": generation])
  }

  /// Finishes the transition: after a swipe or a pop, the page on top is popped.
  @discardableResult
  public func finishTransition(
    on stack: String, generation: Int? = nil
  ) async throws -> NavigationView {
    try await view("NAV", "FINISH", stack, options: ["GENERATION": generation])
  }

  /// Cancels the transition and restores the stack.
  @discardableResult
  public func cancelTransition(
    on stack: String, generation: Int? = nil
  ) async throws -> NavigationView {
    try await view("NAV", "CANCEL", stack, options: ["GENERATION": generation])
  }

  /// Returns a stack; nil if there is none.
  public func stack(_ stack: String) async throws -> NavigationView? {
    try await viewIfAny("NAV", "GET", stack)
  }

  /// Returns a page of stacks, as `countdowns(cursor:matching:owner:limit:)` does.
  public func stacks(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<NavigationView> {
    try await page("NAV", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}

/// The duration of a transition of a navigation stack.
public enum TransitionDuration: Sendable {
  case lasting(Duration)
  /// Until `finishTransition` or `cancelTransition`.
  case untilFinished

  fileprivate var word: any CommandWord {
    switch self {
    case .lasting(let duration): duration
    case .untilFinished: "finish"
    }
  }
}

/// The loading options of a page on a stack; nil: as configured.
public struct PageLoadOptions: Sendable {
  /// Whether the page loads when it appears again.
  public var refresh: PageView.Refresh?
  /// The time after which a load fails; zero: no limit.
  public var timeout: Duration?
  /// The screen of the HUD during a load; nil: the page's own name.
  public var screen: String?
  /// How long a load may take before the HUD appears.
  public var grace: Duration?
  /// The minimum time that the HUD is visible.
  public var minimum: Duration?

  public init(
    refresh: PageView.Refresh? = nil, timeout: Duration? = nil, screen: String? = nil,
    grace: Duration? = nil, minimum: Duration? = nil
  ) {
    self.refresh = refresh
    self.timeout = timeout
    self.screen = screen
    self.grace = grace
    self.minimum = minimum
  }
}
