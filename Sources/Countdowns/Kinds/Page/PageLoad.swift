/// What a page shows: the first load is animated and can end in an error page, later ones are
/// silent.
///
///     (nothing) --appear--> loading --loaded--> content | empty (nothing to show)
///     loading --failed, time over--> error --retry--> loading
///     content, empty --appear again--> refreshing --loaded--> content | empty
///     refreshing --failed, time over--> content | empty, as it was
///
/// A page that disappears stays as it is; a load continues, and shows again when the page is back.
package struct PageLoad: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable {
    case loading, refreshing, content, empty, error
  }

  /// Whether a page refreshes when it appears again.
  package enum Refresh: String, CaseIterable, Sendable { case always, never }

  /// Why a request is refused. Nothing has changed then.
  package enum Refusal: Equatable, Sendable {
    /// No load is in progress.
    case notLoading
    /// Only a failed load can be retried.
    case notFailed
  }

  package private(set) var state = State.loading
  package private(set) var isVisible = true
  /// How many items were loaded, if given.
  package private(set) var items: Int64?
  /// Why the last load failed, if it did and a message was given.
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
    guard !isVisible else { return false }
    isVisible = true
    guard refresh == .always else { return false }
    switch state {
    case .content, .empty:
      before = state
      begin(.refreshing, timeout, at: now)
      return true
    case .loading, .refreshing, .error: return false
    }
  }

  /// The page disappears. Returns false if it was not visible.
  package mutating func disappear() -> Bool {
    defer { isVisible = false }
    return isVisible
  }

  package mutating func loaded(items: Int64?) -> Refusal? {
    guard isLoading else { return .notLoading }
    self.items = items
    message = nil
    deadline = nil
    state = items == 0 ? .empty : .content
    return nil
  }

  package mutating func failed(_ message: [UInt8]?) -> Refusal? {
    guard isLoading else { return .notLoading }
    self.message = message
    deadline = nil
    state = isAnimated ? .error : before
    return nil
  }

  package mutating func retry(timeout: Interval?, at now: Instant) -> Refusal? {
    guard state == .error else { return .notFailed }
    begin(.loading, timeout, at: now)
    return nil
  }

  /// Time has passed to `now`. Returns the deadline of a load that has timed out.
  package mutating func expire(at now: Instant) -> Instant? {
    guard let due = deadline, due <= now else { return nil }
    _ = failed(nil)
    return due
  }

  private mutating func begin(_ state: State, _ timeout: Interval?, at now: Instant) {
    self.state = state
    message = nil
    deadline = timeout.map { now + $0 }
  }
}
