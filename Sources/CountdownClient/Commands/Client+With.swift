import Wire

/// Work between two commands: the second one is sent too if the work throws, or its task is
/// cancelled, and again until the daemon has answered it.
extension Client {
  /// Shows a HUD while `body` runs.
  ///
  ///     let orders = try await client.withHUD("checkout") { try await load() }
  ///
  /// - Parameters:
  ///   - owner: ends the hold, too.
  ///   - isolation: leave it out.
  /// The others are those of `hud.show`.
  public func withHUD<Result>(
    _ screen: String, kind: HUDView.Kind? = nil, status: String? = nil, grace: Duration? = nil,
    min: Duration? = nil, max: Duration? = nil, mask: HUDView.Mask? = nil,
    level: HUDView.Level? = nil, request: String? = nil, owner: Owner = .connection,
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async throws -> Result {
    let shown = try await hud.show(
      screen, kind: kind, status: status, grace: grace, min: min, max: max, mask: mask,
      level: level, request: request, owner: owner)
    let end = Command(
      ["HUD", "POP", screen],
      ["REQUEST": request, "LEVEL": level?.rawValue, "GENERATION": shown.generation])
    return try await with(end, body)
  }

  /// Opens a scope while `body` runs, and closes it with everything that it owns.
  ///
  /// It is opened again after a lost connection and a restart of the daemon, without what it owned;
  /// not after somebody has closed it.
  ///
  /// - Parameters:
  ///   - id: 1 to 512 bytes.
  ///   - parent: the scope above: this scope closes with it, and events continue there.
  public func withScope<Result>(
    _ id: String, parent: String? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: (ScopeView) async throws -> Result
  ) async throws -> Result {
    let (handle, view) = try await openedScope(id, parent: parent)
    do {
      let result = try await body(view)
      await handle.close()
      return result
    } catch {
      await handle.close()
      throw error
    }
  }

  /// Runs `body` if a session is open; otherwise its action is pending.
  ///
  /// - Returns: the result of `body`; nil if the action is pending: the daemon sends the event
  ///   `run` when the session opens.
  public func withGate<Result>(
    _ session: String, action: String, payload: [UInt8]? = nil,
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async throws -> Result? {
    let answer = try await gate.check(session, action: action, payload: payload)
    return answer.decision == .accepted ? try await body() : nil
  }

  /// What became of a request that runs at most once.
  public enum OnceOutcome: Sendable, Hashable {
    /// It ran here, with this result.
    case ran([UInt8])
    /// It ran before, with this result.
    case known([UInt8])
    /// It is running elsewhere.
    case running
  }

  /// Runs `body` at most once per key, and stores its result for the next who asks.
  ///
  ///     switch try await client.withOnce("order:1001", ttl: .seconds(86_400), { try await order() }) {
  ///     case .ran(let receipt), .known(let receipt): show(receipt)
  ///     case .running: break
  ///     }
  ///
  /// If `body` throws, the key is given back: the next request runs it again.
  ///
  /// - Parameters:
  ///   - ttl: how long the daemon remembers the request.
  ///   - owner: with `.connection`, the key is given back too if this client disconnects.
  ///   - body: returns the result.
  public func withOnce(
    _ key: String, ttl: Duration, owner: Owner = .connection,
    isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> [UInt8]
  ) async throws -> OnceOutcome {
    let once = try await once.begin(key, ttl: ttl, owner: owner)
    guard once.decision == .accepted else {
      return once.result.map { .known($0) } ?? .running
    }
    let result: [UInt8]
    do {
      result = try await body()
    } catch {
      await end(Command(["ONCE", "CANCEL", key], ["GENERATION": once.generation]))
      throw error
    }
    // The work is done: its result is stored even if the task has been cancelled meanwhile.
    await end(Command(["ONCE", "DONE", key, result], ["GENERATION": once.generation]))
    return .ran(result)
  }

  private func with<Result>(
    _ end: Command, isolation: isolated (any Actor)? = #isolation, _ body: () async throws -> Result
  ) async throws -> Result {
    do {
      let result = try await body()
      await self.end(end)
      return result
    } catch {
      await self.end(end)
      throw error
    }
  }

  /// Sends a command that ends something until the daemon has answered it or the client is closed.
  ///
  /// Returns after the first attempt, or at once when the task is cancelled; further attempts
  /// follow in the background.
  func end(_ command: Command) async {
    let (firstAttempt, isOver) = AsyncStream.makeStream(of: Void.self)
    Task {
      var backoff = Backoff()
      while await !attempt(command) {
        isOver.finish()
        try? await Task.sleep(for: backoff.next())
      }
      isOver.finish()
    }
    for await _ in firstAttempt {}
  }

  /// Returns whether no other attempt is needed: the daemon has answered, or nothing helps.
  private func attempt(_ command: Command) async -> Bool {
    do {
      _ = try await reply(to: command)
      return true
    } catch CountdownClientError.server(let code, _) {
      // Any other error means that the entity has ended, or that it belongs to somebody else.
      return ![.loading, .readOnly, .limitReached, .unavailable, .unsure].contains(code)
    } catch CountdownClientError.clientClosed {
      return true
    } catch {
      return false
    }
  }
}
