import Memory

/// Starts under a policy that names limits, and lockouts.
extension Engine {
  /// Returns the limits of a START.
  func charges(
    of start: borrowing CountdownStart, for key: Span<UInt8>, at now: Moment
  ) throws(EngineError) -> [Charge] {
    guard let policy = start.policy else {
      guard start.limits.isEmpty else { throw .limits(.noPolicy) }
      return []
    }
    guard !policy.rules.limits.isEmpty || !start.limits.isEmpty else { return [] }
    return try charges(of: policy, start.limits, for: key, at: now)
  }

  /// Returns limits of the policy in force of a countdown; none without one.
  func limits(
    ofCountdown key: Span<UInt8>, _ limits: (Sending) -> [[UInt8]], at now: Moment
  ) -> [[UInt8]] {
    currentCountdown(key, at: now).flatMap(policyInForce).map(limits) ?? []
  }

  /// Starts a key without a countdown, if its limits have room. A refusal leaves nothing behind.
  func startNew(
    _ key: Span<UInt8>, _ hash: KeyIndex.Hash, _ start: inout CountdownStart,
    _ charges: inout [Charge], by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    if !areCharged, let refusal = refusal(of: charges, at: now) {
      statistics.decisions.refused += 1
      statistics.decisions.limited += 1
      publishRefusal(refusal, of: charges, at: now)
      let view = view(ofRefused: Array(key), start, refusal, at: now)
      let head = Event.Head(.refused, view.generation, reason: refusal.reason, at: now)
      publish(.countdown, view.key, head) { view }
      return StartAnswer(
        decision: .refused(refusal.reason), index: 0, refusal: refusal,
        last: StartAnswer.Forgotten(view))
    }
    try checkLimits(client, adding: 1 + newEntities(of: charges))
    let index = try insertCountdown(
      key, hash, &start, limits: charges.map(\.key), by: client, at: now)
    let hasRoom = charge(&charges, index, by: client, at: now)
    return started(index, hasRoom: hasRoom, at: now)
  }

  private func view(
    ofRefused key: [UInt8], _ start: borrowing CountdownStart, _ refusal: Refusal, at now: Moment
  ) -> CountdownView {
    var view = CountdownView(key: key, .idle, Generation(0), nowUnixMS: now.unixMilliseconds)
    guard let policy = start.policy else { return view }
    let plan = policy.plan(after: 1, firesAtOnce: start.plan.firesAtOnce)
    view.count = plan.count
    view.everyMS = plan.every.millisecondsRoundedUp
    view.retryAfterMS = (refusal.until - now.boot).millisecondsRoundedUp
    view.annotations = start.annotations
    view.quota = QuotaView(SendRecord(), policy, code: nil, at: now.boot)
    view.quota?.limit = refusal.limit
    return view
  }

  /// Charges an accepted send, and makes its countdown wait until the limits have room for the
  /// next one. Returns whether they have room now.
  func charge(
    _ charges: inout [Charge], _ index: UInt32, by client: Client, at now: Moment
  ) -> Bool {
    let hasCode = countdowns.sending(index)?.policy.rules.validity != nil
    var isFull = true
    if let shared = context.sharedLimits {
      shared.note(charges, hasCode: hasCode, countdowns.sending(index))
    } else {
      isFull = take(
        &charges, id: countdowns.generation(index), hasCode: hasCode, by: client, at: now)
      // The codes that this send replaces may have blocked one.
      isFull = isFull || blockedLimits > 0
    }
    if isFull, let sending = policyInForce(index), let room = promisedRoom(of: charges, at: now) {
      wait(index, sending, until: room.until, at: now)
    }
    return !isFull
  }

  private func wait(
    _ index: UInt32, _ sending: Sending, until room: Instant, at now: Moment
  ) {
    guard case .counting(let deadline) = countdowns.machine(index).phase, deadline < room else {
      return
    }
    sending.ownUntil = sending.ownUntil ?? deadline
    countdowns[index].machine.hold(until: room)
  }

  /// Returns when and by which limit the next start of a countdown is accepted; nil if it has no
  /// limits.
  ///
  /// - Parameter hasRoom: whether it is known that they have room.
  func limited(
    _ index: UInt32, hasRoom: Bool = false, at now: Moment
  ) -> (until: Instant, limit: [UInt8]?)? {
    guard !settings.throttles.isEmpty, let sending = policyInForce(index), !sending.limits.isEmpty
    else { return nil }
    let charges = hasRoom ? [] : currentCharges(sending.limits, at: now)
    let refusal = refusal(of: index, by: sending.policy, charges, at: now)
    return (refusal?.until ?? now.boot, refusal?.limit)
  }

  /// Returns why the next start of a countdown is refused, if it is like the last one; nil if it is
  /// accepted.
  func nextRefusal(of index: UInt32, at now: Moment) -> Refusal? {
    let sending = policyInForce(index)
    let charges = currentCharges(sending?.limits ?? [], at: now)
    return refusal(of: index, by: sending?.policy, charges, at: now)
  }

  /// Returns the limits with these keys without running what is due for them, which makes no
  /// difference to what they refuse.
  private func currentCharges(_ keys: [[UInt8]], at now: Moment) -> [Charge] {
    keys.compactMap { key in
      rules(of: key.span).map { rules in
        let index =
          context.sharedLimits == nil
          ? throttles.find(key).flatMap { throttles[$0].isOver ? nil : $0 } : limit(key, at: now)
        if let index { adoptRules(index) }
        return Charge(key: key, rules: rules, index: index)
      }
    }
  }

  /// Lets a countdown that would be ready continue to count, if somebody else has used the room of
  /// its limits meanwhile. Returns false if there is room.
  func waitForRoom(_ index: UInt32, _ sending: Sending, at now: Moment) -> Bool {
    guard sending.isInForce, !sending.limits.isEmpty else { return false }
    journal?.willBeOver(index, at: now)
    shadow?.follow(countdowns.key(index), at: now)
    guard let room = promisedRoom(of: charges(of: sending.limits, at: now), at: now) else {
      return false
    }
    wait(index, sending, until: room.until, at: now)
    publish(countdown: index, .retimed, reason: room.reason, refusal: room, at: now)
    return true
  }

  /// Lets a countdown count again that was paused while it waited for its limits, whose room may
  /// have come or gone meanwhile.
  func resumeWait(_ index: UInt32, _ sending: Sending, left: Interval, at now: Moment) {
    sending.endWait()
    _ = countdowns[index].machine.retime(left, at: now.boot)
    _ = countdowns[index].machine.resume(at: now.boot)
    // Its room was promised before, so it needs no later one than the first.
    if let limit = refusal(of: charges(of: sending.limits, at: now), at: now) {
      wait(index, sending, until: limit.until, at: now)
    }
  }

  func openCodes(of sending: Sending) -> [SendRecord.Send] {
    settings.throttles.isEmpty ? [] : sending.record.openCodes
  }

  // MARK: Attempts that allow no send

  /// Lets a countdown count until the lockout that an attempt has begun is over, and until its key
  /// has a guess left.
  func waitAfterAttempt(_ index: UInt32, _ sending: Sending, at now: Moment) {
    guard sending.isInForce,
      let block = sending.record.attemptBlock(by: sending.policy, at: now.boot)
    else { return }
    let before = countdowns.machine(index)
    countdowns[index].machine.wait(until: block.until)
    if countdowns.machine(index) != before {
      publish(countdown: index, .retimed, reason: block.reason, at: now)
    }
    armOrRun(index, at: now)
  }

  /// Lets a countdown count for its cooldown only, as the code was right after all.
  ///
  /// - Parameter block: what the attempts before have blocked.
  func endWait(_ index: UInt32, _ sending: Sending, for block: Refusal, at now: Moment) {
    guard sending.isInForce, case .counting(block.until) = countdowns.machine(index).phase,
      let last = sending.record.sends.last
    else { return }
    let machine = countdowns.machine(index)
    let cooldown = machine.isRefunded ? now.boot : last.at + machine.plan.duration
    _ = countdowns[index].machine.retime(max(cooldown - now.boot, .zero), at: now.boot)
    sending.record.hold(&countdowns[index].machine, by: sending.policy, at: now.boot)
    if let room = promisedRoom(of: charges(of: sending.limits, at: now), at: now) {
      wait(index, sending, until: room.until, at: now)
    }
  }

  // MARK: What only limits count

  /// Drops sends that no limit counts any more.
  func dropPast(_ sending: Sending, at now: Moment) {
    let over = sending.record.past.prefix { counts($0) <= now.boot }.count
    if over > 0 { sending.record.past.removeFirst(over) }
  }

  /// Returns until when limits count what only they still count; nil if there is nothing.
  func countsPast(_ sending: Sending) -> Instant? { sending.record.past.map(counts).max() }

  /// Returns until when limits count a send.
  private func counts(_ send: SendRecord.Send) -> Instant {
    send.limits.reduce(send.at) { until, key in
      max(until, send.at + (rules(of: key.span)?.memory ?? .zero))
    }
  }

  /// Lets a countdown that is to be forgotten be idle, as if it were new, while limits still count
  /// what was sent: FORGIVE can give that back. Returns false if none does.
  func outlive(_ index: UInt32, at now: Moment) -> Bool {
    guard let sending = countdowns.sending(index) else { return false }
    sending.record = sending.record.forgotten
    dropPast(sending, at: now)
    guard let until = countsPast(sending), until > now.boot else { return false }
    sending.endWait()
    var entity = countdowns[index]
    entity.machine = Countdown(
      entity.machine.plan, .idle(since: now.boot), sends: 0,
      isRefunded: entity.machine.isRefunded)
    connections.disown(EntityRef(.countdown, index), entity.owner)
    (entity.owner, entity.tokens, entity.titles) = (.none, Tokens(), nil)
    entity.annotations = Annotations()
    countdowns[index] = entity
    noteChange(ofCountdown: index, toSends: true)
    return true
  }

  // MARK: Support

  /// Forgets the sends of a key and their codes, as if nothing had been sent or tried.
  ///
  /// - Parameter withLimits: whether its limits get back what the key used of them.
  package func forgiveCountdown(
    _ key: Span<UInt8>, withLimits: Bool, generation: Generation?, by client: Client,
    at now: Moment
  ) throws(EngineError) -> CountdownView {
    guard let index = currentCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns.generation(index))
    try checkSendsWritable(index)
    if let sending = countdowns.sending(index) {
      if withLimits {
        for send in sending.record.charged { refund(send, at: now) }
        sending.record = SendRecord()
      } else {
        for send in sending.record.sends where send.expires != nil {
          learn(.ignored, of: send, at: now)
        }
        // Later it may be forgiven with its limits.
        sending.record = sending.record.forgotten
      }
      sending.endWait()
    }
    _ = countdowns[index].machine.retime(.zero, at: now.boot)
    notices.append(.forgiven(key: Array(key), withLimits: withLimits, uid: client.uid))
    shadow?.learn { other throws(EngineError) in
      _ = try other.forgiveCountdown(
        key, withLimits: withLimits, generation: nil, by: client, at: now)
    }
    publish(countdown: index, .forgiven, by: client.uid, at: now)
    return currentView(index, at: now)
  }
}
