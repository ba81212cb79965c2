import Countdowns

/// Guards that scopes own, in the engine and in the model. Here only the time and the order of
/// their ends are compared; guards have their own models for the rest.
extension InteractionSimulation {
  /// The kinds of guards, each with its own keys.
  private static let guards: [(kind: EntityKind, keys: [String])] = [
    (.once, ["o0", "o1"]), (.gate, ["l0", "l1"]), (.debounce, ["d0", "d1"]),
  ]

  /// Begins a guard, or begins it again: the scope that is named owns it from then on.
  mutating func playGuard() throws(Disagreement) {
    let (kind, keys) = pick(Self.guards)
    let key = pick(keys)
    let after = pick([1, 300, 2_000, 30_000] as [Int64])
    let ownerName: String? = chance(oneIn: 5) ? nil : anyScope()
    try observe("\(kind.name) \(key) \(after) owner \(ownerName ?? "-")") {
      this throws(Disagreement) in
      var owner = Owner.none
      if let ownerName {
        guard let scope = try this.owner(ownerName) else { return }
        owner = scope
      }
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try key.withKeyThrowing { bytes throws(EngineError) in
          try Self.begin(kind, bytes, .milliseconds(after), owner, engine, client, now)
        }
      }
      if this.isFull(asked, adding: this.model.guards[key] == nil ? 1 : 0) { return }
      guard case .success(let generation) = asked else {
        throw Disagreement(description: "\(kind.name) \(key): \(asked)")
      }
      let known = this.model.guards[key]
      guard let generation else {
        // A key that exists is not begun again.
        return try this.compare("whether \(key) is done", known != nil, true)
      }
      // A gate keeps only the newest action; a debouncer continues.
      let isSame = generation == known?.generation
      try this.compare("whether \(key) goes on", isSame, kind == .debounce && known != nil)
      if kind == .once { try this.compare("whether \(key) was there", known != nil, false) }
      let ofScope = ownerName.map { ($0, this.model.scopes[$0]!.generation) }
      this.events.note(owned: generation, by: ofScope?.1)
      this.model.guards[key] = InteractionModel.Guard(
        kind: kind, generation: generation, owner: ofScope, due: this.model.now + after * 1_000)
    }
  }

  /// Returns the generation; nil if it was refused.
  private static func begin(
    _ kind: EntityKind, _ key: Span<UInt8>, _ after: Interval, _ owner: Owner,
    _ engine: Engine, _ client: Client, _ now: Moment
  ) throws(EngineError) -> Generation? {
    switch kind {
    case .once:
      var request = OnceRequest(ttl: after)
      request.owner = owner
      let (refusal, view) = try engine.beginOnce(key, request, by: client, at: now)
      return refusal == nil ? view.generation : nil
    case .gate:
      var check = GateCheck(Gate.Action(name: [1], payload: nil), ttl: after)
      check.owner = owner
      return try engine.checkGate(key, check, by: client, at: now).view.generation
    default:
      let rule = Debounce.Rule(quiet: after)!
      return try engine.callDebounce(
        key, rule, payload: nil, owner: owner, by: client, at: now
      ).generation
    }
  }

  /// Compares all guards, once nothing is due.
  mutating func compareGuards() throws(Disagreement) {
    for (kind, keys) in Self.guards {
      for key in keys {
        let now = now
        let generation = key.withKey { bytes in
          switch kind {
          case .once: engine.once(bytes, at: now)?.generation
          case .gate: engine.gate(bytes, at: now)?.generation
          default: engine.debounce(bytes, at: now)?.generation
          }
        }
        try compare("\(kind.name) \(key)", generation, model.guards[key]?.generation)
      }
    }
  }
}
