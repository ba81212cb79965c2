import Countdowns

extension Engine {
  func countdown(_ key: UnsafeRawBufferPointer, at now: Moment) -> CountdownView? {
    get(.countdown, key, now)
  }
  func timer(_ key: UnsafeRawBufferPointer, at now: Moment) -> TimerView? { get(.timer, key, now) }
  func throttle(_ key: UnsafeRawBufferPointer, at now: Moment) -> ThrottleView? {
    get(.throttle, key, now)
  }
  func once(_ key: UnsafeRawBufferPointer, at now: Moment) -> OnceView? { get(.once, key, now) }
  func gate(_ key: UnsafeRawBufferPointer, at now: Moment) -> GateView? { get(.gate, key, now) }
  func debounce(_ key: UnsafeRawBufferPointer, at now: Moment) -> DebounceView? {
    get(.debounce, key, now)
  }

  private func get<View: EntityView>(
    _ kind: EntityKind, _ key: UnsafeRawBufferPointer, _ now: Moment
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
