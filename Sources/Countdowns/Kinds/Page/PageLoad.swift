/// What a page shows: the first load is animated and can end in an error page, later ones are
/// silent.
///
///     (nothing) --appear--> loading --loaded--> content | empty (nothing to show)
///     loading --failed, time over--> error
///     error, empty --retry--> loading
///     content, empty --appear again--> refreshing --loaded--> content | empty
///     content, empty, error --refresh--> refreshing
///     refreshing --failed, time over--> content | empty | error, as it was
///
/// A page that disappears stays as it is; a load continues, and shows again when the page is back.
package struct PageLoad: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable {
    case loading, refreshing, content, empty, error
  }

  /// Whether a page loads when it appears again. A load in progress continues in any case.
  package enum Refresh: String, CaseIterable, Sendable {
    /// After it had disappeared, unless it failed.
    case always
    case never
    /// Also if it was visible, or had failed.
    case every
  }

  /// Why a request is refused. Nothing has changed then.
  package enum Refusal: Equatable, Sendable {
    /// No load is in progress.
    case notLoading
    /// Only a failed load, or one that found nothing, can be retried.
    case notFailed
    /// A load is in progress.
    case loading
  }

  package private(set) var state = State.loading
  package private(set) var isVisible = true
  /// How many items were loaded, if given.
  package private(set) var items: Int64?
  /// What the last load said: why it failed, or what to show beside the content. A failed refresh
  /// that says nothing leaves it.
  package private(set) var message: [UInt8]?
  /// When the load times out.
  package private(set) var deadline: Instant?
  /// The state after a failed refresh.
  private var before = State.content

  /// The first load begins as the page appears.
  package init(timeout: Interval?, at now: Instant) { deadline = timeout.map { now + $0 } }

  /// Whether the load is visible, and its failure too.
  package var isAnimated: Bool { state == .loading }
  package var isLoading: Bool { state == .loading || state == .refreshing }
  package var nextExpiry: Instant? { deadline }

  // MARK: Inputs

  /// The page appears, for the first time or again. Returns true if a load begins.
  package mutating func appear(_ refresh: Refresh, timeout: Interval?, at now: Instant) -> Bool {
    let isBack = !isVisible
    isVisible = true
    guard refresh != .never else { return false }
    switch state {
    case .content, .empty:
      guard isBack || refresh == .every else { return false }
      begin(.refreshing, timeout, at: now)
    case .error:
      guard refresh == .every else { return false }
      begin(.loading, timeout, at: now)
    case .loading, .refreshing: return false
    }
    return true
  }

  /// The page disappears. Returns false if it was not visible.
  package mutating func disappear() -> Bool {
    defer { isVisible = false }
    return isVisible
  }

  package mutating func loaded(items: Int64?, _ message: [UInt8]? = nil) -> Refusal? {
    guard isLoading else { return .notLoading }
    self.items = items
    self.message = message
    deadline = nil
    state = items == 0 ? .empty : .content
    return nil
  }

  package mutating func failed(_ message: [UInt8]?) -> Refusal? {
    guard isLoading else { return .notLoading }
    if isAnimated || message != nil { self.message = message }
    deadline = nil
    state = isAnimated ? .error : before
    return nil
  }

  package mutating func retry(timeout: Interval?, at now: Instant) -> Refusal? {
    guard state == .error || state == .empty else { return .notFailed }
    begin(.loading, timeout, at: now)
    return nil
  }

  /// Loads again, and leaves what is shown until that is done: pull to refresh.
  package mutating func refresh(timeout: Interval?, at now: Instant) -> Refusal? {
    guard !isLoading else { return .loading }
    begin(.refreshing, timeout, at: now)
    return nil
  }

  /// Time has passed to `now`. Returns the deadline of a load that has timed out.
  package mutating func expire(at now: Instant) -> Instant? {
    guard let due = deadline, due <= now else { return nil }
    _ = failed(nil)
    return due
  }

  private mutating func begin(_ new: State, _ timeout: Interval?, at now: Instant) {
    before = state
    state = new
    if isAnimated {
      items = nil
      message = nil
    }
    deadline = timeout.map { now + $0 }
  }
}
