import Memory

extension Engine {
  // MARK: Commands

  /// - Parameter start: not changed; `inout` avoids the retains and releases of a copy.
  package func start(
    _ key: Span<UInt8>, _ start: inout CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    let answer = try startOnly(key, &start, by: client, at: now)
    if settings.hasShadows { shadow(key, start, answer, by: client, at: now) }
    return answer
  }

  private func startOnly(
    _ key: Span<UInt8>, _ start: inout CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    try checkWritable(start.owner)
    if start.policy != nil { try checkWritable(.none) }
    let hash = countdowns.hash(key)
    guard let index = currentCountdown(key, hash: hash, at: now) else {
      try checkLimits(client)
      if start.isPlain, !subscriptions.isAnythingWatched {
        return try startPlain(key, hash, start.plan, by: client, at: now)
      }
      var charges = try charges(of: start, for: key, at: now)
      guard !charges.isEmpty else {
        return started(try insertCountdown(key, hash, &start, by: client, at: now), at: now)
      }
      return try startNew(key, hash, &start, &charges, by: client, at: now)
    }
    try checkSendsWritable(index)
    let charges = try charges(of: start, for: key, at: now)
    return try restart(
      index, plan: start.plan, policy: start.policy, charges.map(\.key), charges,
      token: start.token, of: .start, by: client, at: now
    ) { entity, connections in
      let reference = EntityRef(.countdown, index)
      connections.disown(reference, entity.owner)
      connections.own(reference, start.owner)
      entity.owner = start.owner
      entity.annotations = start.annotations
      entity.titles = .of(start)
    }
  }

  package func resend(
    _ key: Span<UInt8>, limits: [[UInt8]] = [], token: [UInt8]?, by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    guard let index = currentCountdown(key, at: now) else { throw .notFound }
    try checkSendsWritable(index)
    let sending = policyInForce(index)
    var keys = sending?.limits ?? []
    var charges: [Charge] = []
    if !limits.isEmpty {
      guard let policy = sending?.policy else { throw .limits(.noPolicy) }
      charges = try self.charges(of: policy, limits, for: key, at: now)
      keys = charges.map(\.key)
    } else if !keys.isEmpty {
      charges = self.charges(keys, at: now)
    }
    let plan = countdowns.machine(index).plan
    let answer = try restart(
      index, plan: plan, policy: sending?.policy, keys, charges, token: token, of: .resend,
      by: client, at: now)
    if settings.hasShadows {
      var start = CountdownStart(plan)
      (start.policy, start.token) = (sending?.policy, token)
      start.limits = keys.filter { rules(of: $0.span)?.needsKey ?? false }
      shadow(key, start, isResend: true, answer, by: client, at: now)
    }
    return answer
  }

  /// Returns the whole view for a reply.
  package func view(of answer: StartAnswer, at now: Moment) -> CountdownView {
    if let last = answer.last { return last.view }
    var view = countdownView(
      answer.index, code: answer.sent, refusal: answer.refusal, hasRoom: answer.hasRoom, at: now)
    if let sent = answer.sent { view.generation = sent }
    return view
  }

  /// Returns the fields of a `BRIEF` reply.
  func brief(of answer: StartAnswer, at now: Moment) -> StartAnswer.Brief {
    if let known = answer.brief { return known }
    if let last = answer.last?.view {
      return StartAnswer.Brief(generation: last.generation, retryAfterMS: last.retryAfterMS)
    }
    return StartAnswer.Brief(
      generation: answer.sent ?? countdowns.generation(answer.index),
      retryAfterMS: CountdownView.retryAfterMS(
        countdowns.machine(answer.index), countdowns.sending(answer.index),
        retryAt: answer.refusal?.until
          ?? limited(answer.index, hasRoom: answer.hasRoom, at: now)?.until, at: now))
  }

  /// Returns false if there was nothing to cancel. Sends stay in the windows of their policy, so
  /// cancelling is no way around a quota.
  package func cancelCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = currentCountdown(key, at: now) else { return false }
    try check(generation, against: countdowns.generation(index))
    if case .idle = countdowns.machine(index).phase { return false }
    try checkWritable(countdowns.owner(index))
    shadow?.learn { other throws(EngineError) in
      _ = try other.cancelCountdown(key, generation: generation, at: now)
    }
    cancelCountdown(index, reason: .cancelled, at: now)
    return true
  }

  package func pauseCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    let view = try changeCountdown(key, generation, .paused, at: now) { index, sending in
      if countdowns.machine(index).ticks { sending?.pauseWait(at: now.boot) }
      return countdowns[index].machine.pause(at: now.boot)
    }
    shadow?.learn { other throws(EngineError) in
      _ = try other.pauseCountdown(key, generation: nil, at: now)
    }
    return view
  }

  package func resumeCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    let view = try changeCountdown(key, generation, .resumed, at: now) { index, sending in
      guard case .paused = countdowns.machine(index).phase, let sending, let left = sending.ownLeft
      else {
        return countdowns[index].machine.resume(at: now.boot)
      }
      resumeWait(index, sending, left: left, at: now)
      return true
    }
    shadow?.learn { other throws(EngineError) in
      _ = try other.resumeCountdown(key, generation: nil, at: now)
    }
    return view
  }

  package func retimeCountdown(
    _ key: Span<UInt8>, to left: Interval, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    let view = try changeCountdown(key, generation, .retimed, at: now) { index, sending in
      sending?.endWait()
      return countdowns[index].machine.retime(left, at: now.boot)
    }
    shadow?.learn { other throws(EngineError) in
      _ = try other.retimeCountdown(key, to: left, generation: nil, at: now)
    }
    return view
  }

  // MARK: Steps

  func insertCountdown(
    _ key: Span<UInt8>, _ hash: KeyIndex.Hash, _ start: inout CountdownStart,
    limits: [[UInt8]] = [], by client: Client, at now: Moment
  ) throws(EngineError) -> UInt32 {
    let generation = newGeneration()
    var sending: Sending?
    let machine: Countdown
    if let policy = start.policy {
      var record = SendRecord()
      machine = record.accept(
        generation, firesAtOnce: start.plan.firesAtOnce, by: policy, limits: limits, at: now.boot)
      sending = Sending(policy, record)
      if !limits.isEmpty { sending?.limits = limits }
    } else {
      machine = Countdown(start.plan, at: now.boot)
    }
    let index = countdowns.insert(
      key, hash: hash, machine, generation, uid: client.uid, titles: .of(start),
      .of(start, generation, sending, at: now.boot))
    guard let index else {
      throw .limit(name: "max-key-memory", value: settings.limits.keyMemory)
    }
    connections.own(EntityRef(.countdown, index), start.owner)
    connections.adjustEntityCount(by: 1, for: client.uid)
    return index
  }

  /// Starts a new countdown that has only a plan while there are no subscriptions: the usual case.
  private func startPlain(
    _ key: Span<UInt8>, _ hash: KeyIndex.Hash, _ plan: Countdown.Plan, by client: Client,
    at now: Moment
  ) throws(EngineError) -> StartAnswer {
    let generation = newGeneration()
    let machine = Countdown(plan, at: now.boot)
    guard let index = countdowns.insert(key, hash: hash, machine, generation, uid: client.uid)
    else { throw .limit(name: "max-key-memory", value: settings.limits.keyMemory) }
    connections.adjustEntityCount(by: 1, for: client.uid)
    let left = plan.duration
    guard left > .zero else { return started(index, at: now) }
    statistics.decisions.accepted += 1
    let deadline = now.boot + left
    changes.note(EntityRef(.countdown, index), isKept: true)
    var head = Event.Head(.started, generation)
    head.sequence = newSequence()
    if eventLog.isOn {
      let tailKey = EventCoding.Tail.TailKey(
        ahead: generation.value &- head.sequence, nowUnixMS: now.unixMilliseconds,
        deadlineUnixMS: now.unixMilliseconds(of: deadline), left: left, plan: plan,
        sends: machine.sends)
      eventLog.append(head, key: key, tailKey, of: client.uid) {
        countdowns.view(index, key: false, code: nil, retryAt: nil, at: now)
      }
    }
    countdowns.timers[index] =
      arm(nil, for: deadline, EntityRef(.countdown, index))?.record
    return StartAnswer(
      decision: .accepted, index: index,
      brief: StartAnswer.Brief(
        generation: generation, retryAfterMS: left.millisecondsRoundedUp))
  }

  private func restart(
    _ index: UInt32, plan: Countdown.Plan, policy: SendPolicy?, _ limits: [[UInt8]],
    _ charges: [Charge], token: [UInt8]?, of command: Tokens.Command, by client: Client,
    at now: Moment,
    change: (inout CountdownEntity, inout Connections) -> Void = { _, _ in }
  ) throws(EngineError) -> StartAnswer {
    if let token, let sent = countdowns[index].tokens.generation(token, of: command) {
      statistics.decisions.repeated += 1
      return StartAnswer(decision: .acceptedBefore, index: index, sent: sent)
    }
    if let refusal = refusal(of: index, by: policy, areCharged ? [] : charges, at: now) {
      statistics.decisions.refused += 1
      if refusal.limit != nil {
        statistics.decisions.limited += 1
        publishRefusal(refusal, of: charges, at: now)
      }
      publish(countdown: index, .refused, reason: refusal.reason, refusal: refusal, at: now)
      return StartAnswer(decision: .refused(refusal.reason), index: index, refusal: refusal)
    }
    let added = newEntities(of: charges)
    if added > 0 { try checkLimits(client, adding: added) }
    let generation = newGeneration()
    countdowns[index].generation = generation
    accept(index, plan, by: policy, limits, at: now)
    var charges = charges
    let hasRoom = !charges.isEmpty && charge(&charges, index, by: client, at: now)
    if token != nil {
      countdowns[index].tokens.remember(token, of: command, generation, at: now.boot)
    }
    change(&countdowns[index], &connections)
    return started(index, hasRoom: hasRoom, at: now)
  }

  func started(_ index: UInt32, hasRoom: Bool = false, at now: Moment) -> StartAnswer {
    statistics.decisions.accepted += 1
    publish(countdown: index, .started, at: now)
    var answer = StartAnswer(decision: .accepted, index: index, hasRoom: hasRoom)
    let next = nextExpiry(ofCountdown: index, at: now)
    if let next, next <= now.boot {
      let last = countdownView(index, at: now)
      expireCountdown(index, due: next, at: now)
      if !countdowns.contains(index) { answer.last = StartAnswer.Forgotten(last) }
    } else {
      arm(countdown: index, for: next)
    }
    return answer
  }

  private func changeCountdown(
    _ key: Span<UInt8>, _ generation: Generation?, _ event: Event.Name,
    at now: Moment, _ change: (_ index: UInt32, Sending?) -> Bool
  ) throws(EngineError) -> CountdownView {
    guard let index = currentCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns.generation(index))
    try checkWritable(countdowns.owner(index))
    let before = countdowns.machine(index)
    let sending = policyInForce(index)
    guard change(index, sending) else { throw .isReady }
    if let sending {
      sending.record.hold(&countdowns[index].machine, by: sending.policy, at: now.boot)
    }
    guard countdowns.machine(index) != before else { return countdownView(index, at: now) }
    publish(countdown: index, event, at: now)
    return currentView(index, at: now)
  }

  func removeCountdown(_ index: UInt32) {
    let reference = EntityRef(.countdown, index)
    changes.note(reference, isKept: false)
    arm(countdown: index, for: nil)
    connections.disown(reference, countdowns.owner(index))
    connections.adjustEntityCount(by: -1, for: countdowns.uid(index))
    countdowns.remove(index)
  }

  func countdownView(
    _ index: UInt32, code: Generation? = nil, refusal: Refusal? = nil, hasRoom: Bool = false,
    at now: Moment
  ) -> CountdownView {
    let limited =
      refusal.map { ($0.until, $0.limit) } ?? limited(index, hasRoom: hasRoom, at: now)
    var view = countdowns.view(index, code: code, retryAt: limited?.until, at: now)
    if let limit = limited?.limit { view.quota?.limit = limit }
    return view
  }
}
