extension Engine {
  // MARK: Commands

  /// The send of that generation failed. False if it was given back before.
  package func refundCountdown(
    _ key: Span<UInt8>, generation: Generation, at now: Moment
  ) throws(EngineError) -> (isFirst: Bool, view: CountdownView) {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns.generation(index))
    try checkSendsWritable(index)
    let isFirst: Bool
    if let sending = policyInForce(index) {
      isFirst = sending.record.refund(
        &countdowns[index].machine, by: sending.policy, at: now.boot)
    } else {
      isFirst = countdowns[index].machine.refund(at: now.boot)
    }
    guard isFirst else {
      statistics.repeated += 1
      return (false, countdownView(index, at: now))
    }
    // A retry of a request that was not sent asks again.
    countdowns[index].tokens.removeAll { $0.generation == generation }
    statistics.refunded += 1
    publish(countdown: index, .refunded, at: now)
    return (true, settledView(index, at: now))
  }

  /// One try at a code: of that generation, else the newest.
  package func attemptCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> (SendRecord.Attempt, CountdownView) {
    let (index, sending, code) = try codes(of: key, generation, at: now)
    try checkSendsWritable(index)
    let attempt = sending.record.attempt(code, by: sending.policy, at: now.boot)
    if case .accepted = attempt { noteChange(ofCountdown: index, toSends: true) }
    if attempt == .accepted(isLast: true) { publish(countdown: index, .locked, code, at: now) }
    return (attempt, countdownView(index, code: code, at: now))
  }

  /// The code was right: no code may be tried any more, and what was sent stays in the windows.
  package func passCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> (SendRecord.Pass, CountdownView) {
    let (index, sending, code) = try codes(of: key, generation, at: now)
    try checkSendsWritable(index)
    let pass = sending.record.pass(code, at: now.boot)
    guard pass == .accepted else {
      if pass == .acceptedBefore { statistics.repeated += 1 }
      return (pass, countdownView(index, code: code, at: now))
    }
    publish(countdown: index, .passed, code, at: now)
    return (pass, settledView(index, at: now))
  }

  // MARK: Steps

  /// The policy that the last start named, if it did.
  func policyInForce(_ index: UInt32) -> Sending? {
    guard let sending = countdowns.sending(index), sending.isInForce else { return nil }
    return sending
  }

  /// Why a start is refused; nil if it is accepted.
  func refusal(of index: UInt32, by policy: SendPolicy?, at now: Moment) -> Refusal? {
    let record = policy.flatMap { countdowns.sending(index)?.record(for: $0, at: now.boot) }
    return countdowns.machine(index).refusal(by: policy, record, at: now.boot)
  }

  /// Refuses to change what was sent, which is stored whoever owns it, when it could not be stored.
  func checkSendsWritable(_ index: UInt32) throws(EngineError) {
    try checkWritable(countdowns.sending(index) == nil ? countdowns.owner(index) : .none)
  }

  /// Starts a countdown that is there and may be started.
  func accept(
    _ index: UInt32, _ plan: Countdown.Plan, by policy: SendPolicy?, at now: Moment
  ) {
    guard let policy else {
      // The quota is not asked for this time; it is remembered for when it is.
      countdowns.sending(index)?.isInForce = false
      _ = countdowns[index].machine.start(plan, at: now.boot)
      return
    }
    let sending = countdowns.sending(index) ?? Sending(policy)
    sending.record = sending.record(for: policy, at: now.boot)
    sending.policy = policy
    sending.isInForce = true
    countdowns[index].sending = sending
    sending.record.accept(
      countdowns[index].generation, &countdowns[index].machine, firesAtOnce: plan.firesAtOnce,
      by: policy, at: now.boot)
  }

  /// How long a countdown is kept once it is ready or cancelled.
  func kept(_ machine: Countdown, _ sending: Sending?, at now: Moment) -> Interval {
    guard let sending else { return settings.keepReady }
    return sending.record.kept(
      machine, least: settings.keepReady, by: sending.policy, at: now.boot)
  }

  /// Lets the next code of a countdown expire if that is what is due first; false if it is not.
  func expireCode(of index: UInt32, at now: Moment) -> Bool {
    guard let sending = countdowns.sending(index), let due = sending.record.nextCodeExpiry,
      due <= now.boot
    else { return false }
    if case .counting(let deadline) = countdowns.machine(index).phase, deadline < due {
      return false
    }
    guard let send = sending.record.expireCode(by: sending.policy, at: now.boot) else {
      return false
    }
    statistics.record(late: (now.boot - due).microseconds)
    publish(countdown: index, .expired, send.generation, due: due, at: now)
    return true
  }

  /// How it is once what a change made due has happened. Where that was the last to be remembered
  /// of it, how it was.
  private func settledView(_ index: UInt32, at now: Moment) -> CountdownView {
    let last = countdownView(index, at: now)
    wake(index, at: now)
    return countdowns.contains(index) ? countdownView(index, at: now) : last
  }

  /// What is known of the codes of a key, and the send whose code is meant: the newest that was not
  /// given back, unless a generation is given. An earlier one is stale once its code is not good
  /// any more.
  private func codes(
    of key: Span<UInt8>, _ generation: Generation?, at now: Moment
  ) throws(EngineError) -> (UInt32, Sending, Generation?) {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    guard let sending = countdowns.sending(index) else { throw .noPolicy }
    guard sending.policy.rules.validity != nil else { throw .noCodes(policy: sending.policy.name) }
    if let generation, sending.record.code(generation, at: now.boot) == nil {
      try check(generation, against: countdowns.generation(index))
    }
    return (index, sending, generation ?? sending.record.sends.last?.generation)
  }
}
