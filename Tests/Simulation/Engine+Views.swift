import Countdowns

/// The entities of the engine, by kind.
extension Engine {
  package func countdown(_ key: Span<UInt8>, at now: Moment) -> CountdownView? {
    get(.countdown, key, now)
  }
  package func timer(_ key: Span<UInt8>, at now: Moment) -> TimerView? {
    get(.timer, key, now)
  }
  package func scope(_ key: Span<UInt8>, at now: Moment) -> ScopeView? {
    get(.scope, key, now)
  }
  package func throttle(_ key: Span<UInt8>, at now: Moment) -> ThrottleView? {
    get(.throttle, key, now)
  }
  package func once(_ key: Span<UInt8>, at now: Moment) -> OnceView? {
    get(.once, key, now)
  }
  package func gate(_ key: Span<UInt8>, at now: Moment) -> GateView? {
    get(.gate, key, now)
  }
  package func debounce(_ key: Span<UInt8>, at now: Moment) -> DebounceView? {
    get(.debounce, key, now)
  }
  package func stack(_ key: Span<UInt8>, at now: Moment) -> StackView? {
    get(.nav, key, now)
  }

  private func get<View: EntityView>(
    _ kind: EntityKind, _ key: Span<UInt8>, _ now: Moment
  ) -> View? {
    func get<K: Kind>(_ kind: K.Type) -> View? { self.get(kind, key, at: now) as! View? }
    return get(kind.behavior)
  }

  /// Returns a page of a listing.
  package func list(
    _ kind: EntityKind, _ query: ListQuery, at now: Moment
  ) -> (cursor: Int, views: [any EntityView]) {
    func list<K: Kind>(_ kind: K.Type) -> (cursor: Int, views: [any EntityView]) {
      var views: [any EntityView] = []
      let cursor = self.list(kind, query, at: now) {
        views.append($0)
        return true
      }
      return (cursor, views)
    }
    return list(kind.behavior)
  }

  package func startCountdown(
    _ key: Span<UInt8>, _ start: CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    var start = start
    let answer = try self.start(key, &start, by: client, at: now)
    return (answer.decision, view(of: answer, at: now))
  }

  package func resendCountdown(
    _ key: Span<UInt8>, token: [UInt8]?, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    let answer = try resend(key, token: token, by: client, at: now)
    return (answer.decision, view(of: answer, at: now))
  }

  /// Returns a page of a scope and all below it.
  package func scopeTree(
    _ key: Span<UInt8>, cursor: Int64, limit: Int, at now: Moment
  ) throws(EngineError) -> (cursor: Int64, views: [ScopeView]) {
    var views: [ScopeView] = []
    let next = try scopeTree(key, cursor: cursor, limit: limit, at: now) {
      views.append($0)
      return true
    }
    return (next, views)
  }

  /// Takes the events that have not been delivered yet. The engine needs `SentEvents` as observer.
  package func takeOutbox() -> [SentEvent] {
    var taken = Outbox()
    exchangeOutbox(&taken)
    return (observer as! SentEvents).take()
  }
}
