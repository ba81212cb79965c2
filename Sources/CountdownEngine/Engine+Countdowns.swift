import CountdownCore

/// What START says, beyond the key.
package struct CountdownStart: Sendable {
  /// With a policy, only whether it fires at once counts.
  package var plan: Countdown.Plan
  package var policy: SendPolicy?
  package var owner: Owner = .none
  package var title: [UInt8]?
  package var readyTitle: [UInt8]?
  package var meta: [UInt8]?
  package var token: [UInt8]?

  package init(_ plan: Countdown.Plan) { self.plan = plan }
}

/// The answer to "may I send a code now?".
package enum StartDecision: Equatable, Sendable {
  case accepted
  /// The send that this token belongs to was accepted before.
  case acceptedBefore
  case refused(Refusal.Reason)

  package var isAccepted: Bool {
    switch self {
    case .accepted, .acceptedBefore: true
    case .refused: false
    }
  }

  package var reason: Event.Reason? {
    switch self {
    case .accepted: nil
    case .acceptedBefore: .duplicate
    case .refused(let reason): Event.Reason(reason)
    }
  }
}

extension Engine {
  // MARK: Commands

  package mutating func startCountdown(
    _ key: UnsafeRawBufferPointer, _ start: CountdownStart, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    try checkWritable(start.owner)
    guard let index = settledCountdown(key, at: now) else {
      try checkLimits(client)
      return (.accepted, insertCountdown(Array(key), start, by: client, at: now))
    }
    try checkWritable(countdowns[index].owner)
    return restart(
      index, plan: start.plan, policy: start.policy, token: start.token, at: now
    ) { entity, connections in
      let reference = EntityRef(.countdown, index)
      connections.disown(reference, entity.owner)
      connections.own(reference, start.owner)
      entity.owner = start.owner
      entity.meta = start.meta
    } titles: {
      $0.titles(start)
    }
  }

  package mutating func resendCountdown(
    _ key: UnsafeRawBufferPointer, token: [UInt8]?, by client: Client, at now: Moment
  ) throws(EngineError) -> (StartDecision, CountdownView) {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    try checkWritable(countdowns[index].owner)
    return restart(
      index, plan: countdowns[index].machine.plan, policy: policyInForce(index)?.policy,
      token: token, at: now)
  }

  package mutating func countdown(
    _ key: UnsafeRawBufferPointer, at now: Moment
  ) -> CountdownView? {
    settledCountdown(key, at: now).map { CountdownView(countdowns[$0], at: now) }
  }

  package mutating func listCountdowns(
    _ query: ListQuery, at now: Moment
  ) -> Page<CountdownView> {
    for index in countdowns.lookedAt(query) { _ = settleCountdown(index, at: now) }
    return countdowns.page(query, owner: { $0.owner }, view: { CountdownView($0, at: now) })
  }

  /// False if there was nothing to cancel. What was sent under a policy stays in its windows: to
  /// cancel is no way round a quota.
  package mutating func cancelCountdown(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = settledCountdown(key, at: now) else { return false }
    try check(generation, against: countdowns[index].generation)
    if case .idle = countdowns[index].machine.phase { return false }
    try checkWritable(countdowns[index].owner)
    cancelCountdown(index, reason: .cancelled, at: now)
    return true
  }

  package mutating func pauseCountdown(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .paused, at: now) { $0.pause(at: now.boot) }
  }

  package mutating func resumeCountdown(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .resumed, at: now) { $0.resume(at: now.boot) }
  }

  package mutating func retimeCountdown(
    _ key: UnsafeRawBufferPointer, to left: Interval, generation: Generation?, at now: Moment
  ) throws(EngineError) -> CountdownView {
    try changeCountdown(key, generation, .retimed, at: now) { $0.retime(left, at: now.boot) }
  }

  // MARK: Time

  /// `due` is when it was to be woken.
  mutating func expireCountdown(_ index: UInt32, due: Instant, at now: Moment) {
    guard isThere(countdowns[index].owner, at: now) else {
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
      let kept = kept(countdowns[index], at: now)
      switch countdowns[index].machine.expire(at: now.boot, kept: kept) {
      case .tick:
        // Whoever watched when it was armed may be gone. The next tick is computed from the steps
        // that are left now: ticks that were missed are one.
        if subscriptions.isWatched(.countdown, countdowns[index].key) {
          statistics.record(late: (now.boot - due).microseconds)
          publish(countdown: index, .tick, due: due, at: now)
        }
      case .ready:
        // It was woken for its deadline, or for a tick that is merged into this.
        if case .ready(let deadline) = countdowns[index].machine.phase { due = deadline }
        statistics.record(late: (now.boot - due).microseconds)
        publish(countdown: index, .ready, due: due, at: now)
      case .forgotten:
        removeCountdown(index)
        return
      case nil:
        break
      }
      guard let next = nextExpiry(ofCountdown: index, at: now) else { break }
      due = next
    }
    armCountdown(index, at: now)
  }

  /// Somebody may have begun to watch: its next tick counts now.
  mutating func armCountdown(_ index: UInt32, at now: Moment) {
    let next = nextExpiry(ofCountdown: index, at: now)
    countdowns[index].alarm = arm(
      countdowns[index].alarm, for: next, EntityRef(.countdown, index))
  }

  mutating func cancelCountdown(_ index: UInt32, reason: Event.Reason, at now: Moment) {
    if reason == .ownerGone { statistics.ownerGone += 1 } else { statistics.cancelled += 1 }
    publish(countdown: index, .cancelled, reason: reason, at: now)
    let entity = countdowns[index]
    guard entity.sending != nil else { return removeCountdown(index) }
    _ = countdowns[index].machine.cancel(at: now.boot)
    connections.disown(EntityRef(.countdown, index), entity.owner)
    countdowns[index].owner = .none
    countdowns[index].token = nil
    noteChange(ofCountdown: index)
    // It is forgotten at once if nothing that was sent matters any more. Where an owner's end is
    // noticed late, codes that expired meanwhile are told of first.
    wake(index, at: now)
  }

  // MARK: Steps

  /// The countdown of that name, after what is due for it has happened.
  mutating func settledCountdown(
    _ key: UnsafeRawBufferPointer, at now: Moment
  ) -> UInt32? {
    guard let index = countdowns.find(key), settleCountdown(index, at: now) else { return nil }
    return index
  }

  /// Lets happen what is due for a countdown; false if it is not there, or not any more.
  mutating func settleCountdown(_ index: UInt32, at now: Moment) -> Bool {
    guard let entity = countdowns.entity(at: Int(index)) else { return false }
    guard isThere(entity.owner, at: now) else {
      cancelCountdown(index, reason: .ownerGone, at: now)
      return countdowns.entity(at: Int(index)) != nil
    }
    guard let due = due(entity.alarm), due <= now.boot else { return true }
    expireCountdown(index, due: due, at: now)
    return countdowns.entity(at: Int(index)) != nil
  }

  private func nextExpiry(ofCountdown index: UInt32, at now: Moment) -> Instant? {
    let isWatched =
      subscriptions.isAnythingWatched
      && subscriptions.isWatched(.countdown, countdowns[index].key)
    guard let sending = countdowns[index].sending else {
      return countdowns[index].machine.nextExpiry(
        at: now.boot, watched: isWatched, kept: settings.keepReady)
    }
    let next = countdowns[index].machine.nextExpiry(
      at: now.boot, watched: isWatched, kept: kept(countdowns[index], at: now))
    guard let code = sending.record.nextCodeExpiry else { return next }
    return next.map { min($0, code) } ?? code
  }

  private mutating func insertCountdown(
    _ key: [UInt8], _ start: CountdownStart, by client: Client, at now: Moment
  ) -> CountdownView {
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
      CountdownEntity(
        key: key, machine: machine, generation: generation, owner: start.owner, uid: client.uid,
        titles: titles.titles(start), sending: sending, meta: start.meta, token: start.token))
    connections.own(EntityRef(.countdown, index), start.owner)
    connections.count(1, for: client.uid)
    return started(index, at: now)
  }

  private mutating func restart(
    _ index: UInt32, plan: Countdown.Plan, policy: SendPolicy?, token: [UInt8]?, at now: Moment,
    change: (inout CountdownEntity, inout Connections) -> Void = { _, _ in },
    titles newTitles: ((inout TitleCache) -> Titles?)? = nil
  ) -> (StartDecision, CountdownView) {
    if let token, token == countdowns[index].token {
      return (.acceptedBefore, CountdownView(countdowns[index], at: now))
    }
    if let refusal = refusal(of: index, by: policy, at: now) {
      statistics.refused += 1
      publish(
        countdown: index, .refused, reason: Event.Reason(refusal.reason),
        retryAt: refusal.until, at: now)
      let view = CountdownView(countdowns[index], retryAt: refusal.until, at: now)
      return (.refused(refusal.reason), view)
    }
    countdowns[index].generation = newGeneration()
    accept(index, plan, by: policy, at: now)
    countdowns[index].token = token
    change(&countdowns[index], &connections)
    if let newTitles { countdowns[index].titles = newTitles(&titles) }
    return (.accepted, started(index, at: now))
  }

  private mutating func started(_ index: UInt32, at now: Moment) -> CountdownView {
    statistics.accepted += 1
    publish(countdown: index, .started, at: now)
    wake(index, at: now)
    return CountdownView(countdowns[index], at: now)
  }

  private mutating func changeCountdown(
    _ key: UnsafeRawBufferPointer, _ generation: Generation?, _ event: Event.Name,
    at now: Moment, _ change: (inout Countdown) -> Bool
  ) throws(EngineError) -> CountdownView {
    guard let index = settledCountdown(key, at: now) else { throw .notFound }
    try check(generation, against: countdowns[index].generation)
    try checkWritable(countdowns[index].owner)
    let before = countdowns[index].machine
    guard change(&countdowns[index].machine) else { throw .isReady }
    if let sending = policyInForce(index) {
      sending.record.hold(&countdowns[index].machine, by: sending.policy, at: now.boot)
    }
    if countdowns[index].machine != before {
      publish(countdown: index, event, at: now)
      wake(index, at: now)
    }
    return CountdownView(countdowns[index], at: now)
  }

  /// Arms a countdown that has changed; one that has no time left is ready at once.
  mutating func wake(_ index: UInt32, at now: Moment) {
    if let due = nextExpiry(ofCountdown: index, at: now), due <= now.boot {
      expireCountdown(index, due: due, at: now)
    } else {
      armCountdown(index, at: now)
    }
  }

  mutating func removeCountdown(_ index: UInt32) {
    let reference = EntityRef(.countdown, index)
    changes.note(reference, isKept: false)
    _ = arm(countdowns[index].alarm, for: nil, reference)
    let entity = countdowns.remove(index)
    connections.disown(reference, entity.owner)
    connections.count(-1, for: entity.uid)
  }

  /// What happens to a countdown is noted where it is published; this is for what is not.
  mutating func noteChange(ofCountdown index: UInt32) {
    changes.note(EntityRef(.countdown, index), isKept: countdowns[index].owner == .none)
  }

  /// `generation` is that of the entity unless it happened to an earlier code.
  mutating func publish(
    countdown index: UInt32, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Event.Reason? = nil, retryAt: Instant? = nil, at now: Moment
  ) {
    let entity = countdowns[index]
    if name.tellsOfChange { noteChange(ofCountdown: index) }
    let isKept = name.tellsOfChange && entity.owner == .none
    publish(.countdown, entity.key, isKept: isKept) { sequence in
      Event(
        name: name,
        subject: .countdown(
          CountdownView(entity, code: generation, retryAt: retryAt, at: now)),
        generation: generation ?? entity.generation, sequence: sequence,
        dueUnixMS: due.map { now.unixMilliseconds(ofPast: $0) },
        lateMicroseconds: due.map { (now.boot - $0).microseconds }, reason: reason)
    }
  }
}
