/// Pages: first loads, error pages and silent refreshes.
extension CountdownClient {
  /// Reports that a page is on the screen: its first load begins, later a silent refresh.
  ///
  /// Options that are nil stay as they were.
  ///
  /// - Parameters:
  ///   - refresh: whether the page loads when it appears again.
  ///   - timeout: how long a load may take before it has failed; zero: no limit.
  ///   - screen: where the HUD appears meanwhile; the page's name until it was given.
  ///   - grace: how long a load may take without the HUD.
  ///   - minimum: how long the HUD stays once it is visible.
  @discardableResult
  public func pageAppeared(
    _ page: String, refresh: PageView.Refresh? = nil, timeout: Duration? = nil,
    screen: String? = nil, grace: Duration? = nil, minimum: Duration? = nil, owner: Owner? = nil
  ) async throws(CountdownClientError) -> PageView {
    try await view(
      "PAGE", "APPEAR", page,
      options: [
        "REFRESH": refresh?.rawValue, "TIMEOUT": timeout,
        "SCREEN": screen, "GRACE": grace, "MIN": minimum, "OWNER": owner,
      ])
  }

  /// Reports that a page has left the screen. Its load continues.
  @discardableResult
  public func pageDisappeared(_ page: String) async throws(CountdownClientError) -> PageView {
    try await view("PAGE", "DISAPPEAR", page)
  }

  /// Reports that a load is complete.
  ///
  /// - Parameters:
  ///   - items: the number of items; 0 shows the no-data view.
  ///   - message: a text to show with it, such as that of the no-data view.
  ///   - generation: the generation of the load; `STALE` if there is a later one.
  @discardableResult
  public func pageLoaded(
    _ page: String, items: Int? = nil, message: String? = nil, generation: Int? = nil
  ) async throws(CountdownClientError) -> PageView {
    try await view(
      "PAGE", "LOADED", page,
      options: ["ITEMS": items, "MESSAGE": message, "GENERATION": generation])
  }

  /// Reports that a load has failed.
  @discardableResult
  public func pageFailed(
    _ page: String, message: String? = nil, generation: Int? = nil
  ) async throws(CountdownClientError) -> PageView {
    try await view("PAGE", "FAILED", page, options: ["MESSAGE": message, "GENERATION": generation])
  }

  /// Loads a page again that has failed or is empty, animated.
  @discardableResult
  public func retryPage(
    _ page: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> PageView {
    try await view("PAGE", "RETRY", page, options: ["GENERATION": generation])
  }

  /// Loads a page again and keeps what it shows until then: pull to refresh.
  @discardableResult
  public func refreshPage(
    _ page: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> PageView {
    try await view("PAGE", "REFRESH", page, options: ["GENERATION": generation])
  }

  /// Removes a page. Returns whether there was one.
  @discardableResult
  public func closePage(
    _ page: String, generation: Int? = nil
  ) async throws(CountdownClientError) -> Bool {
    try await flag("PAGE", "CLOSE", page, options: ["GENERATION": generation])
  }

  /// Returns a page; nil if it never appeared.
  public func page(_ page: String) async throws(CountdownClientError) -> PageView? {
    try await viewIfAny("PAGE", "GET", page)
  }

  /// Returns a page of a list of pages, as `countdowns(cursor:matching:owner:limit:)` does.
  public func pages(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws(CountdownClientError) -> Page<PageView> {
    try await page("PAGE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
