extension Engine {
  // MARK: Commands

  /// Refunds the send of that generation.
  package func refundCountdown(
    _ key: Span<UInt8>, generation: Generation, at now: Moment
  ) throws(EngineError) -> (refund: SendRecord.Refund, view: CountdownView) {
    guard let index = currentCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns.generation(index))
    try checkSendsWritable(index)
    let refund: SendRecord.Refund
    let sent = policyInForce(index)?.record.sends.last
    if let sending = policyInForce(index) {
      refund = sending.record.refund(
        &countdowns[index].machine, by: sending.policy, at: now.boot)
    } else {
      refund = countdowns[index].machine.refund(at: now.boot) ? .accepted : .acceptedBefore
    }
    guard refund == .accepted else {
      if refund == .acceptedBefore { statistics.decisions.repeated += 1 }
      return (refund, countdownView(index, at: now))
    }
    // Nothing was sent, so a repeated request with the same token is a new one.
    countdowns[index].tokens.forget(generation, of: [.start, .resend])
    statistics.decisions.refunded += 1
    if let sent = sent ?? policyInForce(index)?.record.takePast(generation) {
      self.refund(sent, at: now)
    }
    policyInForce(index)?.endWait()
    shadow?.learn { other throws(EngineError) in
      _ = try other.refundCountdown(key, generation: generation, at: now)
    }
    publish(countdown: index, .refunded, at: now)
    return (.accepted, currentView(index, at: now))
  }

  /// Returns the view for an accepted attempt that is repeated with its token; nil if it is none.
  func repeatedAttempt(
    _ key: Span<UInt8>, generation: Generation?, atAny: Bool, token: [UInt8]?, at now: Moment
  ) -> CountdownView? {
    guard let token, let index = currentCountdown(key, at: now),
      let tried = countdowns[index].tokens.generation(token, of: .attempt)
    else { return nil }
    statistics.decisions.repeated += 1
    var view = countdownView(index, code: generation ?? tried, at: now)
    view.generation = tried
    if atAny { view.codes = codesToCheck(of: index, upTo: tried, at: now) }
    return view
  }

  /// Returns the codes that may be checked after an attempt at all of them.
  private func codesToCheck(
    of index: UInt32, upTo newest: Generation, at now: Moment
  ) -> [CodeView] {
    guard let sending = countdowns.sending(index) else { return [] }
    return sending.record.triedCodes(upTo: newest, at: now.boot).map {
      CodeView($0, by: sending.policy, at: now.boot)
    }
  }

  /// Counts an attempt at the code of that generation, or at the newest if nil.
  ///
  /// - Parameters:
  ///   - atAny: whether it is an attempt at each valid code.
  ///   - limits: the keys that ATTEMPT gives for limits. They are asked first; a refusal charges
  ///     nothing.
  package func attemptCountdown(
    _ key: Span<UInt8>, generation: Generation?, atAny: Bool = false, limits: [[UInt8]] = [],
    token: [UInt8]? = nil, by client: Client, at now: Moment
  ) throws(EngineError) -> (SendRecord.Attempt, CountdownView) {
    let (index, sending, code) = try codes(of: key, generation, at: now)
    try checkSendsWritable(index)
    let (policy, names) = (sending.policy, sending.policy.rules.attemptLimits)
    var charges: [Charge] = []
    if !names.isEmpty || !limits.isEmpty {
      charges = try self.charges(of: policy, limits, for: key, by: .attempt, at: now)
    }
    if let refusal = attemptRefusal(of: sending, charges, at: now) {
      publishRefusal(refusal, of: charges, at: now)
      var view = countdownView(index, code: code, refusal: refusal, at: now)
      if atAny { view.codes = [] }
      return (.refused(refusal.reason), view)
    }
    let added = newEntities(of: charges)
    if added > 0 { try checkLimits(client, adding: added) }
    let attempt =
      atAny
      ? sending.record.attemptAny(by: policy, at: now.boot)
      : sending.record.attempt(code, by: policy, at: now.boot)
    guard case .accepted(let isLast) = attempt else {
      var view = countdownView(index, code: code, at: now)
      if atAny { view.codes = [] }
      return (attempt, view)
    }
    let id = charge(attempt: &charges, by: client, at: now)
    if token != nil {
      let current = countdowns.generation(index)
      countdowns[index].tokens.remember(token, of: .attempt, current, at: now.boot)
      armCountdown(index, at: now)
    }
    noteChange(ofCountdown: index, toSends: true)
    shadow?.learnAttempt(
      key, generation: atAny ? nil : code, atAny: atAny, limits: limits, token: token,
      id ?? newGeneration(), by: client, at: now)
    return (attempt, attempted(index, sending, atAny, code, isLast: isLast, at: now))
  }

  /// Returns why no code of a key may be tried, whichever it is: what ends last. Nil if one may.
  private func attemptRefusal(
    of sending: Sending, _ charges: [Charge], at now: Moment
  ) -> Refusal? {
    let limit = areCharged ? nil : refusal(of: charges, at: now)
    // Of a code that was used, the record says so.
    guard limit != nil || !sending.record.isPassed else { return nil }
    return Refusal.last(limit, sending.record.guessBlock(by: sending.policy, at: now.boot))
  }

  /// Charges an accepted attempt to its limits. Returns its number; nil if it needs none.
  private func charge(
    attempt charges: inout [Charge], by client: Client, at now: Moment
  ) -> Generation? {
    if let shared = context.sharedLimits { shared.note(charges, hasCode: false, nil) }
    guard !charges.isEmpty, context.sharedLimits == nil else { return nil }
    let id = newGeneration()
    take(&charges, id: id, hasCode: false, by: client, at: now)
    return id
  }

  /// Publishes what an accepted attempt has changed, and returns the view.
  private func attempted(
    _ index: UInt32, _ sending: Sending, _ atAny: Bool, _ code: Generation?, isLast: Bool,
    at now: Moment
  ) -> CountdownView {
    let tried =
      atAny ? codesToCheck(of: index, upTo: countdowns.generation(index), at: now) : nil
    if isLast, let tried {
      for code in tried where code.attemptsLeft == 0 {
        publish(countdown: index, .locked, code.generation, at: now)
      }
    } else if isLast {
      publish(countdown: index, .locked, code, at: now)
    }
    waitAfterAttempt(index, sending, at: now)
    var view = countdownView(index, code: code, at: now)
    view.codes = tried
    return view
  }

  /// Marks a code as used: no code may be tried until the next send. Sends stay in the windows.
  package func passCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> (SendRecord.Pass, CountdownView) {
    let (index, sending, code) = try codes(of: key, generation, at: now)
    let newest = countdowns.generation(index)
    if generation == nil, !sending.record.triedCodes(upTo: newest, at: now.boot).isEmpty {
      throw .needsGeneration
    }
    try checkSendsWritable(index)
    let open = openCodes(of: sending)
    let block = sending.record.attemptBlock(by: sending.policy, at: now.boot)
    let pass = sending.record.pass(code, at: now.boot)
    guard pass == .accepted else {
      if pass == .acceptedBefore { statistics.decisions.repeated += 1 }
      return (pass, countdownView(index, code: code, at: now))
    }
    if let block { endWait(index, sending, for: block, at: now) }
    // What was entered counts before what it replaces, which alone could block a limit.
    for send in open where send.generation == code { learn(.entered, of: send, at: now) }
    for send in open where send.generation != code { learn(.missed, of: send, at: now) }
    shadow?.learn { other throws(EngineError) in
      _ = try other.passCountdown(key, generation: code, at: now)
    }
    publish(countdown: index, .passed, code, at: now)
    return (pass, currentView(index, at: now))
  }

  // MARK: Steps

  /// Returns the policy that the last START named, with its sends; nil if it named none.
  func policyInForce(_ index: UInt32) -> Sending? {
    guard let sending = countdowns.sending(index), sending.isInForce else { return nil }
    return sending
  }

  /// Returns why a start is refused: what ends last. Nil if it is accepted.
  func refusal(
    of index: UInt32, by policy: SendPolicy?, _ charges: [Charge], at now: Moment
  ) -> Refusal? {
    let own = ownRefusal(of: index, by: policy, at: now.boot)
    guard !charges.isEmpty, let limit = refusal(of: charges, at: now) else { return own }
    return own.map { $0.until >= limit.until ? $0 : limit } ?? limit
  }

  /// Returns why a start is refused apart from limits.
  private func ownRefusal(
    of index: UInt32, by policy: SendPolicy?, at now: Instant
  ) -> Refusal? {
    let sending = countdowns.sending(index)
    let record = policy.flatMap { sending?.record(for: $0, at: now) }
    var machine = countdowns.machine(index)
    if let until = sending?.ownUntil, machine.ticks {
      guard until > now else { return policy.flatMap { record?.block(by: $0, at: now) } }
      _ = machine.retime(until - now, at: now)
    } else if let left = sending?.ownLeft, machine.isPending {
      _ = machine.retime(left, at: now)
    }
    return machine.refusal(by: policy, record, at: now)
  }

  /// Throws if a change could not be stored. Sends under a policy are stored whoever owns them.
  func checkSendsWritable(_ index: UInt32) throws(EngineError) {
    try checkWritable(countdowns.sending(index) == nil ? countdowns.owner(index) : .none)
  }

  /// Starts an existing countdown, for which `refusal` must be nil.
  func accept(
    _ index: UInt32, _ plan: Countdown.Plan, by policy: SendPolicy?, _ limits: [[UInt8]],
    at now: Moment
  ) {
    guard let policy else {
      // This start ignores the quota, which is kept for the next start with a policy.
      if let sending = countdowns.sending(index) {
        if sending.ownUntil != nil { countdowns[index].machine.endWait(at: now.boot) }
        sending.endWait()
        sending.isInForce = false
      }
      _ = countdowns[index].machine.start(plan, at: now.boot)
      return
    }
    let sending = countdowns.sending(index) ?? Sending(policy)
    if sending.ownUntil != nil { countdowns[index].machine.endWait(at: now.boot) }
    sending.endWait()
    sending.record = sending.record(for: policy, at: now.boot)
    sending.policy = policy
    sending.isInForce = true
    sending.limits = limits
    countdowns[index].sending = sending
    let open = openCodes(of: sending)
    sending.record.accept(
      countdowns[index].generation, &countdowns[index].machine, firesAtOnce: plan.firesAtOnce,
      by: policy, limits: limits, at: now.boot)
    dropPast(sending, at: now)
    // Those that a newer one replaces.
    for send in open where sending.record.code(send.generation, at: now.boot) == nil {
      learn(.missed, of: send, at: now)
    }
  }

  /// Returns how long a countdown is retained once it is ready or cancelled.
  func kept(
    _ index: UInt32, _ machine: Countdown, _ sending: Sending?, at now: Moment
  ) -> Interval {
    var least = settings.keepReady
    if case .ready(let since) = machine.phase, let until = countdowns.tokens(index)?.until {
      least = max(least, until - since)
    }
    guard let sending else { return least }
    if case .idle(let since) = machine.phase, sending.record.isForgotten {
      return max((countsPast(sending) ?? since) - since, .zero)
    }
    let kept = sending.record.kept(
      machine, least: least, by: sending.policy, at: now.boot)
    // After CANCEL, sends on record keep the tokens.
    guard case .idle(let since) = machine.phase, !sending.record.sends.isEmpty,
      let until = countdowns.tokens(index)?.until
    else { return kept }
    return max(kept, until - since)
  }

  /// Expires the next code if it is due, ahead of the countdown's deadline. Returns false if not.
  func expireCode(of index: UInt32, at now: Moment) -> Bool {
    guard let sending = countdowns.sending(index), let due = sending.record.nextCodeExpiry,
      due <= now.boot
    else { return false }
    if case .counting(let deadline) = countdowns.machine(index).phase, deadline < due {
      return false
    }
    journal?.willExpire(index, at: now)
    shadow?.follow(countdowns.key(index), at: now)
    guard let send = sending.record.expireCode(by: sending.policy, at: now.boot) else {
      return false
    }
    statistics.record(late: (now.boot - due).microseconds)
    if !send.limits.isEmpty { learn(.missed, of: send, at: now) }
    publish(countdown: index, .expired, send.generation, due: due, at: now)
    return true
  }

  /// Runs what a change made due, and returns the view afterwards; the view before if the countdown
  /// was forgotten by that.
  func currentView(_ index: UInt32, at now: Moment) -> CountdownView {
    let last = countdownView(index, at: now)
    armOrRun(index, at: now)
    let isKnown = countdowns.contains(index) && !isForgotten(index)
    return isKnown ? countdownView(index, at: now) : last
  }

  /// Whether a countdown is only there for what its limits count.
  private func isForgotten(_ index: UInt32) -> Bool {
    guard case .idle = countdowns.machine(index).phase else { return false }
    return countdowns.sending(index)?.record.isForgotten ?? false
  }

  /// Returns the sends of a key, and the generation of the code that is meant: that of the newest
  /// send that was not refunded, unless one is given. An earlier one is stale once its code is
  /// invalid.
  private func codes(
    of key: Span<UInt8>, _ generation: Generation?, at now: Moment
  ) throws(EngineError) -> (UInt32, Sending, Generation?) {
    guard let index = currentCountdown(key, at: now) else { throw .notFound }
    guard let sending = countdowns.sending(index) else { throw .noPolicy }
    guard sending.policy.rules.validity != nil else { throw .noCodes(policy: sending.policy.name) }
    if let generation, sending.record.code(generation, at: now.boot) == nil {
      try check(generation, against: countdowns.generation(index))
    }
    return (index, sending, generation ?? sending.record.sends.last?.generation)
  }
}
