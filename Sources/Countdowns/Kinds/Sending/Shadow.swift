/// Policies that are tried out before they bite: beside a policy with `shadow`, another one decides
/// about each START as well.
///
/// The other policy has an engine of its own, so it has a record and limits of its own, as if it
/// were in force. It learns of all else that happens to the countdowns and limits, at the same
/// moment. Nobody sees its decisions but those who ask for the counts. It is not stored: after a
/// restart it begins again.
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

  func reload(_ settings: EngineSettings, at now: Moment) {
    engine.reload(Self.own(settings), at: now)
  }

  /// Returns the settings of its engine, which logs nothing and has no shadows.
  private static func own(_ settings: EngineSettings) -> EngineSettings {
    var settings = settings
    settings.eventsKept = 0
    settings.policies = settings.policies.mapValues(\.withoutShadow)
    return settings
  }

  /// Does what is due for this engine only. What is due for both happens with `follow`.
  func advance(to moment: Instant, at now: Moment) {
    let wall = now.wall + (moment - now.boot)
    _ = engine.advance(to: Moment(boot: moment, wall: wall), budget: Self.budget)
    discardEvents()
  }

  /// Decides about a START, or about the RESEND of a countdown that it knows. Returns nil if it
  /// cannot.
  ///
  /// - Parameter generation: that of the send, or of one that was not made.
  func decide(
    _ key: Span<UInt8>, _ start: CountdownStart, isResend: Bool, _ generation: Generation,
    by client: Client, at now: Moment
  ) -> StartDecision? {
    defer { discardEvents() }
    engine.number(next: generation)
    var start = start
    do throws(EngineError) {
      return isResend
        ? try engine.resend(
          key, limits: start.limits, token: start.token, by: client, at: now
        ).decision
        : try engine.start(key, &start, by: client, at: now).decision
    } catch { return nil }
  }

  func count(_ isAccepted: Bool, _ isAcceptedHere: Bool?, beside policy: String) {
    switch (isAccepted, isAcceptedHere) {
    case (_, nil): counts[policy, default: Counts()].undecided += 1
    case (true, true?): counts[policy, default: Counts()].both += 1
    case (true, false?): counts[policy, default: Counts()].onlyPolicy += 1
    case (false, true?): counts[policy, default: Counts()].onlyShadow += 1
    case (false, false?): counts[policy, default: Counts()].none += 1
    }
  }

  /// Does what has happened in the other engine; this one may not know the entity.
  func learn(_ body: (Engine) throws(EngineError) -> Void) {
    do throws(EngineError) { try body(engine) } catch {}
    discardEvents()
  }

  /// Does an attempt that was accepted in the other engine.
  ///
  /// - Parameters:
  ///   - limits: the keys that it has given, of which the policy here may ask for others. Without
  ///     one of them it is not known here.
  ///   - number: the number of what its limits are charged, in the order of all of them.
  func learnAttempt(
    _ key: Span<UInt8>, generation: Generation?, atAny: Bool, limits: [[UInt8]], token: [UInt8]?,
    _ number: Generation, by client: Client, at now: Moment
  ) {
    learn { engine throws(EngineError) in
      let names =
        engine.countdowns.find(key).flatMap { engine.countdowns.sending($0) }?.policy.rules
        .attemptLimits ?? []
      engine.number(next: number)
      _ = try engine.attemptCountdown(
        key, generation: generation, atAny: atAny,
        limits: limits.filter { limit in names.contains { LimitRules.has($0, limit) } },
        token: token, by: client, at: now)
    }
  }

  /// Gives a countdown that was not known here before the tokens that it has in the other engine:
  /// it is kept for them.
  func adopt(_ tokens: Tokens, of key: Span<UInt8>, at now: Moment) {
    guard let index = engine.countdowns.find(key) else { return }
    engine.countdowns[index].tokens = tokens
    engine.armOrRun(index, at: now)
    discardEvents()
  }

  /// Runs what is due for a countdown, as the other engine does now.
  func follow(_ key: [UInt8], at now: Moment) {
    if let index = engine.countdowns.find(key) { _ = engine.runDue(countdown: index, at: now) }
    discardEvents()
  }

  private func discardEvents() {
    engine.outbox.removeAll()
    engine.notices.removeAll()
  }
}

extension Engine {
  /// The engine that decides for shadows, and follows this one; nil if no policy has any.
  func shadow(at now: Moment) -> Shadow? {
    guard settings.hasShadows else { return nil }
    if stores.countdowns.shadow == nil {
      stores.countdowns.shadow = Shadow(settings, at: now)
    }
    return stores.countdowns.shadow
  }

  /// Lets the shadow of the policy of a START or RESEND decide as well. One that is accepted under
  /// another policy, or none, is made there too: it shares keys and limits.
  ///
  /// - Parameter isResend: whether it is a RESEND; `start` is what START would have been.
  func shadow(
    _ key: Span<UInt8>, _ start: consuming CountdownStart, isResend: Bool = false,
    _ answer: StartAnswer, by client: Client, at now: Moment
  ) {
    guard answer.decision != .acceptedBefore, let shadow = shadow(at: now) else { return }
    let (isAccepted, policy) = (answer.decision.isAccepted, start.policy)
    let other = policy.flatMap { settings.policies[$0.name]?.shadow }.flatMap {
      settings.policies[$0]
    }
    guard other != nil || isAccepted else { return }
    let generation = isAccepted ? brief(of: answer, at: now).generation : newGeneration()
    shadow.advance(to: ran(until: now.boot), at: now)
    let isKnown = shadow.engine.currentCountdown(key, at: now) != nil
    if !isAccepted, !isKnown, countdowns.find(key).map({ policyInForce($0) == nil }) ?? false {
      // The cooldown of a countdown without a policy, for both.
      return shadow.count(false, false, beside: policy?.name ?? "")
    }
    guard policy != nil || isKnown else { return }
    start.owner = .none
    if let other {
      start.policy = other
      start.limits = start.limits.filter { limit in
        LimitRules.name(of: limit.span).map { other.rules.limits.contains($0) } ?? false
      }
    }
    let decision = shadow.decide(
      key, start, isResend: isResend && isKnown, generation, by: client, at: now)
    if isAccepted, !isKnown, let tokens = countdowns.find(key).flatMap({ countdowns.tokens($0) }) {
      shadow.adopt(tokens, of: key, at: now)
    }
    if let policy, other != nil {
      shadow.count(isAccepted, decision?.isAccepted, beside: policy.name)
    }
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
