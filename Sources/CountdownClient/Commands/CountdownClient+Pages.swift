/// Pages: first loads, error pages and silent refreshes.
extension CountdownClient {
  /// Reports that a page has appeared: the first time it loads, later it refreshes silently.
  ///
  /// Options that are nil keep their earlier values.
  ///
  /// - Parameters:
  ///   - refresh: whether the page loads when it appears again.
  ///   - timeout: the time after which a load fails; zero: no limit.
  ///   - screen: the screen of the HUD during a load; initially the page's name.
  ///   - grace: how long a load may take before the HUD appears.
  ///   - minimum: the minimum time that the HUD is visible.
  @discardableResult
  public func pageAppeared(
    _ page: String, refresh: PageView.Refresh? = nil, timeout: Duration? = nil,
    screen: String? = nil, grace: Duration? = nil, minimum: Duration? = nil, owner: Owner? = nil
  ) async throws -> PageView {
    try await view(
      "PAGE", "APPEAR", page,
      options: [
        "REFRESH": refresh?.rawValue, "TIMEOUT": timeout,
        "SCREEN": screen, "GRACE": grace, "MIN": minimum, "OWNER": owner,
      ])
  }

  /// Reports that a page has left the screen. Its load continues.
  @discardableResult
  public func pageDisappeared(_ page: String) async throws -> PageView {
    try await view("PAGE", "DISAPPEAR", page)
  }

  /// Reports that a load is complete.
  ///
  /// - Parameters:
  ///   - items: the number of items; 0 shows the no-data view.
  ///   - message: a text to show, such as on the no-data view.
  ///   - generation: the generation of the load; `STALE` if there is a later one.
  @discardableResult
  public func pageLoaded(
    _ page: String, items: Int? = nil, message: String? = nil, generation: Int? = nil
  ) async throws -> PageView {
    try await view(
      "PAGE", "LOADED", page,
      options: ["ITEMS": items, "MESSAGE": message, "GENERATION": generation])
  }

  /// Reports that a load has failed.
  @discardableResult
  public func pageFailed(
    _ page: String, message: String? = nil, generation: Int? = nil
  ) async throws -> PageView {
    try await view("PAGE", "FAILED", page, options: ["MESSAGE": message, "GENERATION": generation])
  }

  /// Loads a failed or empty page again, animated.
  @discardableResult
  public func retryPage(
    _ page: String, generation: Int? = nil
  ) async throws -> PageView {
    try await view("PAGE", "RETRY", page, options: ["GENERATION": generation])
  }

  /// Loads a page again and keeps its content until the load ends: pull to refresh.
  @discardableResult
  public func refreshPage(
    _ page: String, generation: Int? = nil
  ) async throws -> PageView {
    try await view("PAGE", "REFRESH", page, options: ["GENERATION": generation])
  }

  /// Removes a page. Returns whether there was one.
  @discardableResult
  public func closePage(
    _ page: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("PAGE", "CLOSE", page, options: ["GENERATION": generation])
  }

  /// Returns a page; nil if there is none.
  public func page(_ page: String) async throws -> PageView? {
    try await viewIfAny("PAGE", "GET", page)
  }

  /// Returns a page of a list of pages, as `countdowns(cursor:matching:owner:limit:)` does.
  public func pages(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<PageView> {
    try await page("PAGE", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
