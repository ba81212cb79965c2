/// Countdowns: may a verification code be sent now, and may it be tried?
///
/// Errors are connection errors, and `.server` with the code `ERR` (an argument is out of range),
/// `NOTFOUND`, `STALE` (the key has another generation) or `LIMIT`.
extension CountdownClient {
  /// Starts a countdown, unless the key is in cooldown.
  ///
  /// In cooldown, or while the countdown is paused, nothing changes: `accepted` is false, and
  /// `retryAfter` is the time to wait. Refused requests are free: they never extend the wait.
  ///
  /// - Parameters:
  ///   - key: 1 to 512 bytes.
  ///   - policy: the name of a policy in the daemon's configuration, in place of `count` and
  ///     `every`. It limits how often and over which channels codes are sent, and how long they are
  ///     valid.
  ///   - count: the number of steps, 1 to 2147483647; nil: as configured (60).
  ///   - every: the length of a step, at least 1 ms, rounded up to a millisecond; nil: as
  ///     configured (1 s).
  ///   - fire: whether to take the first step at once, as `Timer.fire()` does.
  ///   - title: the text while counting, at most 1024 bytes: `%d` stands for the steps left,
  ///     `%m:%02s` for minutes and seconds.
  ///   - readyTitle: the text when ready, at most 1024 bytes.
  ///   - meta: at most 4096 bytes to store and to show in views.
  ///   - token: 1 to 64 bytes that make it safe to repeat the call. A repetition changes nothing;
  ///     it is `accepted`, with the `reason` `repeated`. With a token made for this one call, send
  ///     if `accepted`. With one that came from outside, do not send if `repeated`: it was or is
  ///     being done. The daemon remembers the newest 16 tokens of a key.
  public func startCountdown(
    _ key: String, policy: String? = nil, count: Int? = nil, every: Duration? = nil,
    fire: Bool = false, title: String? = nil, readyTitle: String? = nil, owner: Owner = .nobody,
    meta: [UInt8]? = nil, token: String? = nil
  ) async throws -> CountdownView {
    try await view(
      "COUNTDOWN", "START", key,
      options: [
        "POLICY": policy, "COUNT": count, "EVERY": every, "FIRE": fire, "TITLE": title,
        "READYTITLE": readyTitle, "OWNER": owner.option, "META": meta, "TOKEN": token,
      ])
  }

  /// Starts a countdown again with its last options; `NOTFOUND` once the daemon has forgotten them.
  ///
  /// - Parameter token: as for `startCountdown`.
  public func resendCountdown(
    _ key: String, token: String? = nil
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "RESEND", key, options: ["TOKEN": token])
  }

  /// Returns a countdown; nil if there is none.
  public func countdown(_ key: String) async throws -> CountdownView? {
    try await viewIfAny("COUNTDOWN", "GET", key)
  }

  /// Explains in words the state of a countdown, and why START and ATTEMPT would be refused.
  public func explainCountdown(
    _ key: String
  ) async throws -> CountdownExplanation {
    try await view("COUNTDOWN", "WHY", key)
  }

  /// Refunds a failed send: ends its cooldown and removes it from the windows.
  ///
  /// Idempotent (`reason` repeated); `STALE` once a newer code was sent.
  @discardableResult
  public func refundCountdown(
    _ key: String, generation: Int
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "REFUND", key, options: ["GENERATION": generation])
  }

  /// Counts an attempt to enter the code; check the code only if `accepted`.
  ///
  /// - Parameters:
  ///   - generation: the generation of the code's send; nil: the newest.
  ///   - token: 1 to 64 bytes that make it safe to repeat the call; make one for each guess.
  public func attemptCountdown(
    _ key: String, generation: Int? = nil, token: String? = nil
  ) async throws -> CountdownView {
    try await view(
      "COUNTDOWN", "ATTEMPT", key, options: ["GENERATION": generation, "TOKEN": token])
  }

  /// Marks the code as used. The send still counts towards the limits.
  ///
  /// Idempotent (`reason` repeated). Not `accepted` (`reason` expired) if the code is no longer
  /// valid.
  ///
  /// - Parameter generation: the generation of the code's send; nil: the newest.
  @discardableResult
  public func passCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "PASS", key, options: ["GENERATION": generation])
  }

  /// Cancels a countdown; its policy still counts the sends. Returns whether there was a countdown.
  @discardableResult
  public func cancelCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> Bool {
    try await flag("COUNTDOWN", "CANCEL", key, options: ["GENERATION": generation])
  }

  /// Pauses a countdown with its remaining time; idempotent.
  @discardableResult
  public func pauseCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "PAUSE", key, options: ["GENERATION": generation])
  }

  /// Continues a paused countdown with its remaining time; idempotent.
  @discardableResult
  public func resumeCountdown(
    _ key: String, generation: Int? = nil
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "RESUME", key, options: ["GENERATION": generation])
  }

  /// Makes a countdown ready `remaining` from now, 0 to 3650 days; zero: at once.
  @discardableResult
  public func retimeCountdown(
    _ key: String, remaining: Duration, generation: Int? = nil
  ) async throws -> CountdownView {
    try await view("COUNTDOWN", "RETIME", key, remaining, options: ["GENERATION": generation])
  }

  /// Returns a page of countdowns.
  ///
  /// - Parameters:
  ///   - cursor: `0` for the first page, then the cursor of the previous page, until `isLast`.
  ///   - matching: a glob pattern for the keys.
  ///   - owner: `none`, `connection` (this one), `connection:ID` or `scope:ID`.
  ///   - limit: the maximum per page, 1 to 1000; nil: 100.
  public func countdowns(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<CountdownView> {
    try await page("COUNTDOWN", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
