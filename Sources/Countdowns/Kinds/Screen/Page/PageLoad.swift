/// The load state of a page: the first load is animated and can end in an error page; later ones
/// are silent.
///
///     (nothing) --appear--> loading --loaded--> content | empty (nothing to show)
///     loading --failed, timeout--> error
///     error, empty --retry--> loading
///     content, empty --appear again--> refreshing --loaded--> content | empty
///     content, empty, error --refresh--> refreshing
///     refreshing --failed, timeout--> content | empty | error, as before
///
/// A page that disappears keeps its state; a load continues, and is visible again with the page.
package struct PageLoad: Equatable, Sendable {
  package enum State: String, CaseIterable, Sendable {
    case loading, refreshing, content, empty, error
  }

  /// Whether a page loads when it appears again. A load in progress continues in any case.
  package enum Refresh: String, CaseIterable, Sendable {
    /// If the page had disappeared and has not failed.
    case always
    case never
    /// Also if the page was visible or has failed.
    case every
  }

  package private(set) var state = State.loading
  package private(set) var isVisible = true
  /// The number of loaded items, if given.
  package private(set) var items: Int64?
  /// The message of the last load: why it failed, or text to show with the content. A failed
  /// refresh without a message keeps it.
  package private(set) var message: [UInt8]?
  /// When the load times out.
  package private(set) var deadline: Instant?
  /// The state to return to after a failed refresh.
  private var before = State.content

  /// Begins the first load of a page that appears.
  package init(timeout: Interval?, at now: Instant) { deadline = timeout.map { now + $0 } }

  /// Whether the load is animated: visible, with an error page if it fails.
  package var isAnimated: Bool { state == .loading }
  package var isLoading: Bool { state == .loading || state == .refreshing }
  package var nextExpiry: Instant? { deadline }

  // MARK: Inputs

  /// Makes the page appear again. Returns whether a load begins.
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

  /// Makes the page disappear. Returns whether it was visible.
  package mutating func disappear() -> Bool {
    defer { isVisible = false }
    return isVisible
  }

  package mutating func loaded(items: Int64?, _ message: [UInt8]? = nil) -> Reason? {
    guard isLoading else { return .notLoading }
    self.items = items
    self.message = message
    deadline = nil
    state = items == 0 ? .empty : .content
    return nil
  }

  package mutating func failed(_ message: [UInt8]?) -> Reason? {
    guard isLoading else { return .notLoading }
    if isAnimated || message != nil { self.message = message }
    deadline = nil
    state = isAnimated ? .error : before
    return nil
  }

  package mutating func retry(timeout: Interval?, at now: Instant) -> Reason? {
    guard state == .error || state == .empty else { return .notFailed }
    begin(.loading, timeout, at: now)
    return nil
  }

  /// Begins a load that keeps what is shown until it is done: pull to refresh.
  package mutating func refresh(timeout: Interval?, at now: Instant) -> Reason? {
    guard !isLoading else { return .loading }
    begin(.refreshing, timeout, at: now)
    return nil
  }

  /// Ends a load that has timed out by `now`. Returns its deadline, or nil if none has.
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

extension PageLoad: Stored {
  package static var blank: PageLoad { PageLoad(timeout: nil, at: .zero) }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.choice("state", &state)
    visitor.field("visible", &isVisible)
    visitor.field("items", &items)
    visitor.field("message", &message)
    visitor.instant("deadline", &deadline)
    visitor.choice("before", &before)
  }
}
