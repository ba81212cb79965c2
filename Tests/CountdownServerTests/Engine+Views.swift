import Countdowns

extension Engine {
  func countdown(_ key: Span<UInt8>, at now: Moment) -> CountdownView? {
    get(.countdown, key, now)
  }
  func timer(_ key: Span<UInt8>, at now: Moment) -> TimerView? { get(.timer, key, now) }
  func throttle(_ key: Span<UInt8>, at now: Moment) -> ThrottleView? {
    get(.throttle, key, now)
  }
  func once(_ key: Span<UInt8>, at now: Moment) -> OnceView? { get(.once, key, now) }
  func gate(_ key: Span<UInt8>, at now: Moment) -> GateView? { get(.gate, key, now) }
  func debounce(_ key: Span<UInt8>, at now: Moment) -> DebounceView? {
    get(.debounce, key, now)
  }

  private func get<View: EntityView>(
    _ kind: EntityKind, _ key: Span<UInt8>, _ now: Moment
  ) -> View? {
    func get<K: Kind>(_ kind: K.Type) -> View? { self.get(kind, key, at: now) as! View? }
    return get(kind.behavior)
  }

  /// Takes the events that have not been delivered yet.
  func takeOutbox() -> [Publication] {
    var taken = Outbox()
    exchangeOutbox(&taken)
    return taken.all
  }
}
