extension EventCoding {
  /// What the texts of a guard take at most.
  static func mostBytes(_ view: GuardView) -> Int {
    switch view {
    case .throttle: 0
    case .once(let view): view.result?.count ?? 0
    case .gate(let view): (view.action?.count ?? 0) + (view.payload?.count ?? 0)
    case .debounce(let view): view.payload?.count ?? 0
    }
  }

  static func write(_ view: GuardView, to writer: inout Writer) {
    func deadline(_ unixMS: Int64?) -> Int64? { unixMS.map { $0 &- view.nowUnixMS } }
    switch view {
    case .throttle:
      preconditionFailure("what happens to rate limits is not kept")
    case .once(let view):
      writer.byte(code(view.state))
      writer.unsigned(view.remainingMS)
      writer.optional(deadline(view.deadlineUnixMS))
      writer.text(view.result)
    case .gate(let view):
      writer.byte(code(view.state))
      writer.optional(view.remainingMS)
      writer.optional(deadline(view.deadlineUnixMS))
      writer.text(view.action)
      writer.text(view.payload)
    case .debounce(let view):
      writer.byte(code(view.state))
      writer.unsigned(view.calls)
      writer.unsigned(view.remainingMS)
      writer.optional(deadline(view.deadlineUnixMS))
      writer.unsigned(view.quietMS)
      writer.optional(view.maximumWaitMS)
      writer.byte(view.isLeading ? 1 : 0)
      writer.text(view.payload)
    }
  }

  static func guardView(
    _ kind: EntityKind, _ key: [UInt8], _ generation: Generation, _ now: Int64,
    _ reader: inout Reader
  ) -> GuardView? {
    switch kind {
    case .once:
      guard let state: OnceView.State = state(&reader) else { return nil }
      var view = OnceView(idle: key, generation, nowUnixMS: now)
      view.state = state
      view.remainingMS = reader.unsigned()
      view.deadlineUnixMS = reader.optional().map { $0 &+ now }
      view.result = reader.text()
      return .once(view)
    case .gate:
      guard let state: GateView.State = state(&reader) else { return nil }
      var view = GateView(closed: key, generation, nowUnixMS: now)
      view.state = state
      view.remainingMS = reader.optional()
      view.deadlineUnixMS = reader.optional().map { $0 &+ now }
      view.action = reader.text()
      view.payload = reader.text()
      return .gate(view)
    case .debounce:
      guard let state: DebounceView.State = state(&reader) else { return nil }
      var view = DebounceView(idle: key, generation, nowUnixMS: now)
      view.state = state
      view.calls = reader.unsigned()
      view.remainingMS = reader.unsigned()
      view.deadlineUnixMS = reader.optional().map { $0 &+ now }
      view.quietMS = reader.unsigned()
      view.maximumWaitMS = reader.optional()
      view.isLeading = reader.byte() != 0
      view.payload = reader.text()
      return .debounce(view)
    case .countdown, .hud, .timer, .scope, .nav, .page, .throttle:
      return nil
    }
  }

  /// A state's place among all of its kind; new ones come at the end.
  private static func code<State: CaseIterable & Equatable>(_ state: State) -> UInt8 {
    UInt8(State.allCases.enumerated().first { $0.element == state }!.offset)
  }

  private static func state<State: CaseIterable>(_ reader: inout Reader) -> State? {
    let code = Int(reader.byte())
    let all = Array(State.allCases)
    return code < all.count ? all[code] : nil
  }
}
