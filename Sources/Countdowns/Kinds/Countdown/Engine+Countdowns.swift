extension Engine {
  // MARK: Commands

  package func startCountdown(
    _ key: Span<UInt8>, _ start: CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    var start = start
    let answer = try self.start(key, &start, by: client, at: now)
    return (answer.decision, view(of: answer, at: now))
  }

  package func resendCountdown(
    _ key: Span<UInt8>, token: [UInt8]?, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    let answer = try resend(key, token: token, by: client, at: now)
    return (answer.decision, view(of: answer, at: now))
  }

  /// - Parameter start: not changed; `inout` avoids the retains and releases of a copy.
  func start(
    _ key: Span<UInt8>, _ start: inout CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    try checkWritable(start.owner)
    if start.policy != nil { try checkWritable(.none) }
    let hash = countdowns.hash(key)
    guard let index = settledCountdown(key, hash: hash, at: now) else {
      try checkLimits(client)
      if start.isPlain, !subscriptions.isAnythingWatched {
        return try startPlain(key, hash, start.plan, by: client, at: now)
      }
      return started(try insertCountdown(key, hash, &start, by: client, at: now), at: now)
    }
    try checkSendsWritable(index)
    return restart(
      index, plan: start.plan, policy: start.policy, token: start.token, at: now
    ) { entity, connections in
      let reference = EntityRef(.countdown, index)
      connections.disown(reference, entity.owner)
      connections.own(reference, start.owner)
      entity.owner = start.owner
      entity.annotations = start.annotations
      entity.titles = .of(start)
    }
  }

  func resend(
    _ key: Span<UInt8>, token: [UInt8]?, by client: Client, at now: Moment
  ) throws(EngineError) -> StartAnswer {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    try checkSendsWritable(index)
    return restart(
      index, plan: countdowns.machine(index).plan, policy: policyInForce(index)?.policy,
      token: token, at: now)
  }

  /// Returns the whole view for a reply.
  func view(of answer: StartAnswer, at now: Moment) -> CountdownView {
    if let last = answer.last { return last.view }
    var view = countdownView(answer.index, code: answer.sent, retryAt: answer.retryAt, at: now)
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
        retryAt: answer.retryAt, at: now))
  }

  /// Returns false if there was nothing to cancel. Sends stay in the windows of their policy, so
  /// cancelling is no way around a quota.
  package func cancelCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = settledCountdown(key, at: now) else { return false }
    try check(generation, against: countdowns.generation(index))
    if case .idle = countdowns.machine(index).phase { return false }
    try checkWritable(countdowns.owner(index))
    cancelCountdown(index, reason: .cancelled, at: now)
    return true
  }

  package func pauseCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .paused, at: now) { $0.pause(at: now.boot) }
  }

  package func resumeCountdown(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .resumed, at: now) { $0.resume(at: now.boot) }
  }

  package func retimeCountdown(
    _ key: Span<UInt8>, to left: Interval, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .retimed, at: now) { $0.retime(left, at: now.boot) }
  }

  // MARK: Time

  /// Runs what is due for a countdown. `due` is the time for which it was armed.
  func expireCountdown(_ index: UInt32, due: Instant, at now: Moment) {
    guard isAlive(countdowns.owner(index), at: now) else {
      cancelCountdown(index, reason: .ownerGone, at: now)
      return
    }
    var due = due
    while due <= now.boot {
      if expireCode(of: index, at: now) {
        guard let next = nextExpiry(ofCountdown: index, at: now) else { break }
        due = next
        continue
      }
      var machine = countdowns.machine(index)
      let sending = countdowns.sending(index)
      let kept = kept(machine, sending, at: now)
      switch machine.expire(at: now.boot, kept: kept) {
      case .tick:
        // The subscriber for whom it was armed may have left. The next tick is computed from the
        // steps left now, so missed ticks merge into one.
        if isWatched(countdown: index) {
          statistics.record(late: (now.boot - due).microseconds)
          publish(countdown: index, machine, due: due, at: now)
        }
      case .ready:
        countdowns.update(index, machine)
        // It was armed for its deadline, or for a tick that merges into this.
        if case .ready(let deadline) = machine.phase { due = deadline }
        statistics.record(late: (now.boot - due).microseconds)
        noteChange(ofCountdown: index, toSends: false)
        publish(countdown: index, machine, due: due, at: now)
      case .forgotten:
        removeCountdown(index)
        return
      case nil:
        break
      }
      guard let next = nextExpiry(ofCountdown: index, machine, sending, at: now) else { break }
      due = next
      if due > now.boot { return arm(countdown: index, for: due) }
    }
    armCountdown(index, at: now)
  }

  /// Arms a countdown for its next expiry, or for its next tick if it is watched.
  func armCountdown(_ index: UInt32, at now: Moment) {
    arm(countdown: index, for: nextExpiry(ofCountdown: index, at: now))
  }

  func cancelCountdown(_ index: UInt32, reason: Event.Reason, at now: Moment) {
    if reason == .ownerGone { statistics.ownerGone += 1 } else { statistics.cancelled += 1 }
    publish(countdown: index, .cancelled, reason: reason, at: now)
    let entity = countdowns[index]
    guard entity.sending != nil else { return removeCountdown(index) }
    _ = countdowns[index].machine.cancel(at: now.boot)
    connections.disown(EntityRef(.countdown, index), entity.owner)
    countdowns[index].owner = .none
    // This forgets it at once if no send matters any more. If the end of the owner is noticed late,
    // codes that expired meanwhile are reported first.
    wake(index, at: now)
  }

  // MARK: Steps

  /// Runs what is due for the countdown of a key, and returns its index; nil if there is none.
  func settledCountdown(
    _ key: Span<UInt8>, at now: Moment
  ) -> UInt32? {
    settledCountdown(key, hash: countdowns.hash(key), at: now)
  }

  private func settledCountdown(
    _ key: Span<UInt8>, hash: KeyIndex.Hash, at now: Moment
  ) -> UInt32? {
    guard let index = countdowns.find(key, hash: hash), settleCountdown(index, at: now) else {
      return nil
    }
    return index
  }

  /// Runs what is due for a countdown. Returns false if it does not exist afterwards.
  func settleCountdown(_ index: UInt32, at now: Moment) -> Bool {
    guard countdowns.contains(index) else { return false }
    guard isAlive(countdowns.owner(index), at: now) else {
      cancelCountdown(index, reason: .ownerGone, at: now)
      return countdowns.contains(index)
    }
    // Usually it still counts, and nothing but its deadline can be due.
    if case .counting(let deadline) = countdowns.machine(index).phase, deadline > now.boot,
      !subscriptions.isAnythingWatched, countdowns.sending(index) == nil
    {
      return true
    }
    guard let due = due(ofCountdown: index), due <= now.boot else { return true }
    expireCountdown(index, due: due, at: now)
    return countdowns.contains(index)
  }

  func isWatched(countdown index: UInt32) -> Bool {
    subscriptions.isAnythingWatched
      && countdowns.withKey(index) { subscriptions.isWatched(.countdown, $0) }
  }

  func nextExpiry(ofCountdown index: UInt32, at now: Moment) -> Instant? {
    nextExpiry(
      ofCountdown: index, countdowns.machine(index), countdowns.sending(index), at: now)
  }

  private func nextExpiry(
    ofCountdown index: UInt32, _ machine: Countdown, _ sending: Sending?, at now: Moment
  ) -> Instant? {
    if case .counting(let deadline) = machine.phase, sending == nil,
      !subscriptions.isAnythingWatched
    {
      return deadline
    }
    let next = machine.nextExpiry(
      at: now.boot, watched: machine.ticks && isWatched(countdown: index),
      kept: kept(machine, sending, at: now))
    guard let code = sending?.record.nextCodeExpiry else { return next }
    return next.map { min($0, code) } ?? code
  }

  private func insertCountdown(
    _ key: Span<UInt8>, _ hash: KeyIndex.Hash, _ start: inout CountdownStart, by client: Client,
    at now: Moment
  ) throws(EngineError) -> UInt32 {
    let generation = newGeneration()
    var sending: Sending?
    let machine: Countdown
    if let policy = start.policy {
      var record = SendRecord()
      machine = record.accept(
        generation, firesAtOnce: start.plan.firesAtOnce, by: policy, at: now.boot)
      sending = Sending(policy, record)
    } else {
      machine = Countdown(start.plan, at: now.boot)
    }
    let index = countdowns.insert(
      key, hash: hash, machine, generation, uid: client.uid, titles: .of(start),
      .of(start, generation, sending))
    guard let index else {
      throw .limit(name: "max-key-memory", value: settings.limits.keyMemory)
    }
    connections.own(EntityRef(.countdown, index), start.owner)
    connections.count(1, for: client.uid)
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
    connections.count(1, for: client.uid)
    let left = plan.duration
    guard left > .zero else { return started(index, at: now) }
    statistics.accepted += 1
    let deadline = now.boot + left
    changes.note(EntityRef(.countdown, index), isKept: true)
    var head = Event.Head(.started, generation)
    head.sequence = newSequence()
    if eventLog.isOn {
      let essence = EventCoding.Tail.TailKey(
        ahead: generation.value &- head.sequence, nowUnixMS: now.unixMilliseconds,
        deadlineUnixMS: now.unixMilliseconds(of: deadline), left: left, plan: plan,
        sends: machine.sends)
      eventLog.append(head, key: key, essence) {
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
    _ index: UInt32, plan: Countdown.Plan, policy: SendPolicy?, token: [UInt8]?, at now: Moment,
    change: (inout CountdownEntity, inout Connections) -> Void = { _, _ in }
  ) -> StartAnswer {
    if let token, let sent = countdowns[index].tokens.first(where: { $0.token == token }) {
      statistics.repeated += 1
      return StartAnswer(decision: .acceptedBefore, index: index, sent: sent.generation)
    }
    if let refusal = refusal(of: index, by: policy, at: now) {
      statistics.refused += 1
      publish(
        countdown: index, .refused, reason: Event.Reason(refusal.reason),
        retryAt: refusal.until, at: now)
      return StartAnswer(
        decision: .refused(refusal.reason), index: index, retryAt: refusal.until)
    }
    let generation = newGeneration()
    countdowns[index].generation = generation
    accept(index, plan, by: policy, at: now)
    if let token {
      countdowns[index].tokens =
        countdowns[index].tokens.suffix(SentToken.most - 1) + [SentToken(token, generation)]
    }
    change(&countdowns[index], &connections)
    return started(index, at: now)
  }

  private func started(_ index: UInt32, at now: Moment) -> StartAnswer {
    statistics.accepted += 1
    publish(countdown: index, .started, at: now)
    var answer = StartAnswer(decision: .accepted, index: index)
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
    at now: Moment, _ change: (inout Countdown) -> Bool
  ) throws(EngineError) -> CountdownView {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns.generation(index))
    try checkWritable(countdowns.owner(index))
    let before = countdowns.machine(index)
    guard change(&countdowns[index].machine) else { throw .isReady }
    if let sending = policyInForce(index) {
      sending.record.hold(&countdowns[index].machine, by: sending.policy, at: now.boot)
    }
    if countdowns.machine(index) != before {
      publish(countdown: index, event, at: now)
      wake(index, at: now)
    }
    return countdownView(index, at: now)
  }

  /// Arms a countdown that has changed, or runs what is due for it already.
  func wake(_ index: UInt32, at now: Moment) {
    let next = nextExpiry(ofCountdown: index, at: now)
    if let next, next <= now.boot { return expireCountdown(index, due: next, at: now) }
    arm(countdown: index, for: next)
  }

  func removeCountdown(_ index: UInt32) {
    let reference = EntityRef(.countdown, index)
    changes.note(reference, isKept: false)
    arm(countdown: index, for: nil)
    connections.disown(reference, countdowns.owner(index))
    connections.count(-1, for: countdowns.uid(index))
    countdowns.remove(index)
  }

  /// Notes a change to be stored, for changes that no call of `publish` notes. Only the sends of a
  /// countdown with an owner are stored.
  func noteChange(ofCountdown index: UInt32, toSends: Bool) {
    guard changes.isOn else { return }
    if !toSends, countdowns.owner(index) != .none, countdowns.hasSends(index) { return }
    changes.note(EntityRef(.countdown, index), isKept: CountdownKind.isDurable(index, in: self))
  }

  /// Publishes an event. `generation` is the entity's unless the event is about an earlier code.
  func publish(
    countdown index: UInt32, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Event.Reason? = nil, retryAt: Instant? = nil, at now: Moment
  ) {
    var head = Event.Head(
      name, generation ?? countdowns.generation(index), due: due, reason: reason, at: now)
    noteEvent(name, ofCountdown: index)
    head.sequence = newSequence()
    let audience = audience(ofCountdown: index)
    let isForLog = eventLog.isOn && isLogged(name, ofCountdown: index)
    guard let audience else {
      // Usually nobody subscribes; then the log borrows the key.
      guard isForLog else { return }
      return countdowns.withKey(index) { key in
        eventLog.append(
          head, key: key,
          countdowns.view(index, key: false, code: generation, retryAt: retryAt, at: now))
      }
    }
    let view = countdowns.view(index, code: generation, retryAt: retryAt, at: now)
    if isForLog { eventLog.append(head, view) }
    send(Event(head, view), .countdown, view.key, to: audience)
  }

  private func noteEvent(_ name: Event.Name, ofCountdown index: UInt32) {
    if name.changesState { noteChange(ofCountdown: index, toSends: name.changesSends) }
  }

  private func isLogged(_ name: Event.Name, ofCountdown index: UInt32) -> Bool {
    decidesForFleet || name.changesState && countdowns.owner(index) == .none
  }

  /// Publishes a tick or `ready`.
  ///
  /// - Parameter machine: the machine after the expiry.
  func publish(
    countdown index: UInt32, _ machine: Countdown, due: Instant, at now: Moment
  ) {
    let audience = audience(ofCountdown: index)
    let event = TimedEvent(
      machine, countdowns.generation(index), sequence: newSequence(),
      isKept: countdowns.owner(index) == .none, due: due, at: now)
    let isForLog = event.changesStoredState && eventLog.isOn
    guard isForLog || audience != nil else { return }
    let titles = countdowns.titles(index)
    let title =
      event.isReady
      ? titles?.ready
      : titles?.counting.map {
        Title.text($0, remaining: event.remaining, left: machine.remainingTime(at: now.boot))
      }
    countdowns.withKey(index) { key in
      if isForLog { eventLog.append(event, key: key, title: title) }
      if let audience {
        statistics.publications += 1
        outbox.append(event, key: key, title: title, to: audience)
      }
    }
  }

  private func audience(ofCountdown index: UInt32) -> Audience? {
    guard subscriptions.isAnythingWatched else { return nil }
    return countdowns.withKey(index) { audience(.countdown, $0) }
  }

  func countdownView(
    _ index: UInt32, code: Generation? = nil, retryAt: Instant? = nil, at now: Moment
  ) -> CountdownView {
    countdowns.view(index, code: code, retryAt: retryAt, at: now)
  }
}

extension Event.Name {
  /// Whether the event is about a change to the sends or their codes.
  fileprivate var changesSends: Bool {
    switch self {
    case .started, .refunded, .expired, .locked, .passed: true
    default: false
    }
  }
}
