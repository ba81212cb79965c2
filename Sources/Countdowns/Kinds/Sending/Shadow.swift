/// Policies that are tried out before they bite: beside a policy with `shadow`, another one decides
/// about each START as well.
///
/// The other policy has an engine of its own, so it has a record and limits of its own, as if it
/// were in force. It learns what becomes of the sends that both have accepted. Nobody sees its
/// decisions but those who ask for the counts. It is not stored: after a restart it begins again.
final class Shadow {
  /// How often both policies accepted a START, only one of them, or none.
  package struct Counts: Equatable {
    var both = 0
    var onlyPolicy = 0
    var onlyShadow = 0
    var none = 0
    /// STARTs about which the other policy could not decide, such as without a key for its limit.
    var undecided = 0
  }

  let engine: Engine
  /// By the name of the policy in force.
  private(set) var counts: [String: Counts] = [:]
  /// About how many steps of due work are done with each decision.
  private static let budget = 8

  init(_ settings: EngineSettings, at now: Moment) {
    engine = Engine(settings: Self.own(settings), at: now)
  }

  func reload(_ settings: EngineSettings) { engine.reload(Self.own(settings)) }

  /// Returns the settings of its engine, which logs nothing.
  private static func own(_ settings: EngineSettings) -> EngineSettings {
    var settings = settings
    settings.eventsKept = 0
    return settings
  }

  /// Decides about a START.
  ///
  /// - Parameters:
  ///   - generation: that of the send, or of one that was not made.
  ///   - limits: the keys of limits that START gave.
  func start(
    _ key: Span<UInt8>, by other: SendPolicy, beside policy: String, fires: Bool,
    limits: [[UInt8]], generation: Generation, isAccepted: Bool, by client: Client, at now: Moment
  ) {
    _ = engine.advance(to: now, budget: Self.budget)
    engine.number(next: generation)
    var start = CountdownStart(
      Countdown.Plan(count: 1, every: .seconds(1), firesAtOnce: fires)!)
    start.policy = other
    start.limits = limits.filter { limit in
      LimitRules.name(of: limit.span).map { other.rules.limits.contains($0) } ?? false
    }
    var decision: StartDecision?
    do throws(EngineError) {
      decision = try engine.start(key, &start, by: client, at: now).decision
    } catch {
      decision = nil
    }
    switch (isAccepted, decision?.isAccepted) {
    case (_, nil): counts[policy, default: Counts()].undecided += 1
    case (true, true?): counts[policy, default: Counts()].both += 1
    case (true, false?): counts[policy, default: Counts()].onlyPolicy += 1
    case (false, true?): counts[policy, default: Counts()].onlyShadow += 1
    case (false, false?): counts[policy, default: Counts()].none += 1
    }
    engine.outbox.removeAll()
    engine.notices.removeAll()
  }

  /// Tells the other policy what became of a send; it may not know the send.
  func learn(_ body: (Engine) throws(EngineError) -> Void) {
    do throws(EngineError) { try body(engine) } catch {}
    engine.notices.removeAll()
  }
}

extension Engine {
  /// Lets the shadow of the policy of a START decide as well.
  func shadow(
    _ key: Span<UInt8>, _ policy: SendPolicy?, fires: Bool, limits: [[UInt8]],
    _ answer: StartAnswer, by client: Client, at now: Moment
  ) {
    guard let policy, let name = settings.policies[policy.name]?.shadow,
      let other = settings.policies[name], answer.decision != .acceptedBefore
    else { return }
    if shadow == nil { stores.countdowns.shadow = Shadow(settings, at: now) }
    let isAccepted = answer.decision.isAccepted
    let generation =
      isAccepted ? brief(of: answer, at: now).generation : newGeneration()
    shadow?.start(
      key, by: other, beside: policy.name, fires: fires, limits: limits, generation: generation,
      isAccepted: isAccepted, by: client, at: now)
  }

  /// What INFO and METRICS report of shadows, by the names of policy and shadow.
  var shadowFigures: [Figure] {
    let shadows = settings.policies.values.compactMap { policy in
      policy.shadow.map { (policy.name, $0, shadow?.counts[policy.name] ?? Shadow.Counts()) }
    }.sorted { $0.0 < $1.0 }
    guard !shadows.isEmpty else { return [] }
    let lines = shadows.map { policy, shadow, counts in
      Figure(
        "shadow_\(policy)",
        "shadow=\(shadow),both=\(counts.both),only_policy=\(counts.onlyPolicy),"
          + "only_shadow=\(counts.onlyShadow),none=\(counts.none),undecided=\(counts.undecided)"
      )
    }
    let metric = Figure(
      "shadow_starts_total", .counter, "STARTs by which of a policy and its shadow accepted them."
    ) {
      shadows.flatMap { policy, shadow, counts in
        [
          ("both", counts.both), ("policy", counts.onlyPolicy), ("shadow", counts.onlyShadow),
          ("none", counts.none), ("undecided", counts.undecided),
        ].map { accepted, count in
          let labels = "policy=\"\(policy)\",shadow=\"\(shadow)\",accepted=\"\(accepted)\""
          return (rest: "{\(labels)}", value: "\(count)")
        }
      }
    }
    return lines + [metric]
  }

  /// Describes what the shadow of a countdown's policy would decide.
  func shadowText(_ key: Span<UInt8>, _ policy: SendPolicy, at now: Moment) -> String? {
    guard let name = settings.policies[policy.name]?.shadow else { return nil }
    let counts = shadow?.counts[policy.name] ?? Shadow.Counts()
    var decision = "START would be accepted"
    if let engine = shadow?.engine, let index = engine.countdowns.find(key) {
      let wait = engine.limited(index, at: now)?.until
      let machine = engine.countdowns.machine(index)
      let sending = engine.countdowns.sending(index)
      let refusal = machine.refusal(by: sending?.policy, sending?.record, at: now.boot)
      if let until = wait ?? refusal?.until, until > now.boot {
        decision = "START would be refused for \((until - now.boot).humanText)"
      }
    }
    return "shadow \(name): \(decision); \(counts.both) accepted by both, "
      + "\(counts.onlyPolicy) only by \(policy.name), \(counts.onlyShadow) only by \(name)"
  }
}
