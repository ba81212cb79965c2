import Wire

/// Operations: decided here, and made by the servers.
extension Fleet {
  // MARK: Commands

  /// Takes a command. Its reply comes later, in its place among the replies of the session.
  func submit(_ call: borrowing Call) throws(CommandError) {
    guard !takesSeveral(call) else { return try call.spec.handler(call) }
    submit(call, about: FleetKey(call.spec.group.kind!, Array(try call.key())))
  }

  func submit(_ call: borrowing Call, about key: FleetKey) {
    let slot = call.session.awaitReply(isBarrier: false)
    let command = FleetCommand(
      spec: call.spec, arguments: KeptArguments(call.arguments), client: call.session.client,
      peer: call.session.peer, rights: call.session.rights, version: call.session.output.version)
    statistics.commands += 1
    begin(.command(command, for: slot), about: key)
  }

  // MARK: Due

  /// Handles the alarm of a copy. The daemon that wrote the record does the due work; if it has
  /// ended, or holds the record no more, another one does.
  func fallDue(_ key: FleetKey) {
    guard let copy = copy(of: key) else { return }
    if copy.record.version.daemon == daemon { return enqueueDue(key) }
    let index = partition(of: key)
    // The keeper comes next, and other hosts with their next heartbeat.
    guard isWhole(index) else { return partitions[index].due.append(key) }
    look(at: key, at: boot + Self.grace)
  }

  /// Does due work, or leaves it until its servers can be asked.
  func enqueueDue(_ key: FleetKey) {
    let index = partition(of: key)
    guard partitions[index].isUsable else { return partitions[index].due.append(key) }
    begin(.due, about: key)
  }

  /// Ends an attempt at due work, and tries again later.
  private func postpone(_ operation: FleetOperation) {
    guard !operation.isOver else { return }
    let key = operation.key
    let index = operation.partition
    end(operation)
    if partitions[index].isUsable {
      look(at: key, at: boot + Self.grace)
    } else {
      partitions[index].due.append(key)
    }
  }

  /// Keeps a command until its partition is open. The key's later commands wait for it.
  private func park(_ operation: FleetOperation) {
    if operation.isDue { return postpone(operation) }
    guard !operation.isOver else { return leave(operation) }
    partitions[operation.partition].parked.append(operation)
  }

  // MARK: Deciding

  func decideNow(_ operation: FleetOperation) {
    guard !operation.isOver, lanes.isCurrent(operation) else { return }
    operation.state = .underWay
    let index = operation.partition
    if isRead(operation), settings.reads == .local, isMirrored(operation.key, in: index) {
      operation.take(localOutcome(operation))
      return confirm(operation)
    }
    if !operation.isDue {
      if let closure = partitions[index].health.closure {
        return refuse(operation, closure.problem)
      }
      if let problem = problem(of: index) { return failForNow(operation, problem) }
    }
    guard partitions[index].health.isOpen else { return park(operation) }
    if operation.isFetch {
      guard operation.seen == nil else { return end(operation) }
      return send(.read(operation.key), to: index, for: .operation(operation))
    }
    guard !partitions[index].clock.isTooFarAhead, let now = partitions[index].clock.now(at: boot),
      let latest = partitions[index].clock.latest(at: boot)
    else { return failByClock(operation) }
    guard !mustWait(operation) else { return }
    let operation = combined(operation)
    let known = partitions[index].copies[operation.key]?.record
    var decided = now
    operation.take(decide(operation, known, at: now))
    guard !operation.outcome.limits.isOpen else { return charge(operation) }
    if operation.outcome.limits.asked.isEmpty { refundCharged(operation) }
    if startsTime(operation), latest > now {
      if let due = operation.outcome.nextDue, due <= latest {
        return hold(
          operation, for: due - now,
          or: "the time of the server is not known well enough yet; try again")
      }
      // What begins now may begin at the latest time: so it does not end early.
      let later = decide(operation, known, at: latest)
      // But nothing is decided otherwise because it may be later.
      if later.statistics == operation.outcome.statistics {
        operation.take(later)
        decided = latest
      }
    }
    if let known, isRepetition(operation), settings.waitsForReplicas {
      // It was accepted before, but perhaps no replica has the record yet. The same record is
      // written again, so that replicas can confirm it.
      operation.confirmAgain(known.bytes)
    }
    switch operation.outcome.change {
    case .none:
      if operation.isDue {
        // It is not due yet by the server's clock. This host's wall clock, if it is ahead, would
        // say again at once that it is.
        if let due = operation.outcome.nextDue {
          look(at: operation.key, at: boot + (due > now ? due - now : Self.grace))
        }
        return end(operation)
      }
      // Confirm if a server has reported this version since the operation began; else ask for it.
      if let seen = operation.seen, seen == known?.version { return confirm(operation) }
      send(.read(operation.key), to: index, for: .operation(operation))
    case .record(let new):
      store(new, inPlaceOf: known?.version, for: operation, at: now, decidedAt: decided)
    }
  }

  /// Has the server of a record store what was decided.
  private func store(
    _ record: [UInt8]?, inPlaceOf expected: FleetVersion?, for operation: FleetOperation,
    at now: Int64, decidedAt decided: Int64
  ) {
    let index = operation.partition
    do throws(CommandError) {
      try check(operation, isNew: expected == nil && record != nil, at: now)
    } catch {
      if error.text.hasPrefix("LIMIT"), operation.seen == nil, !isMirrored(operation.key, in: index)
      {
        // It may not be new.
        return send(.read(operation.key), to: index, for: .operation(operation))
      }
      return fail(operation, error.text)
    }
    turns.note(operation.outcome.limits.promised)
    var change = FleetChange(
      epoch: partitions[index].epoch.id, expected: expected, version: newVersion(),
      record: record, events: operation.outcome.events, earliest: decided,
      latest: decided + settings.maximumClockSkew.microseconds)
    change.lease = lease(of: operation.outcome.owners, in: index)
    // An entity belongs to one connection, or one runs its action.
    change.gone = operation.outcome.gone.first
    (operation.change, operation.state) = (change, .atStake)
    send(.change(operation.key, change), to: index, for: .operation(operation))
  }

  /// Returns why commands need not wait for the server of a partition; nil if they may.
  private func problem(of index: Int) -> String? {
    let health = partitions[index].health
    if !health.isOpen, let problem = health.problem { return problem }
    guard health.isBroken else { return nil }
    return health.refusal.map(Self.text) ?? requests.link.problem(of: index)
  }

  private func decide(
    _ operation: FleetOperation, _ known: FleetRecord?, at time: Int64, isDegraded: Bool = false
  ) -> Workbench.Outcome {
    owners.decide(in: operation.partition, for: operation.command?.client.connection)
    var outcome = workbench.decide(
      operation.parts, by: { ownerNumber(of: $0.connection) }, about: operation.key, known?.bytes,
      charged: operation.charged.map(\.share), at: time,
      settings: dispatcher.engine.settings, isDegraded: isDegraded)
    outcome.gone = owners.gone
    return outcome
  }

  /// Whether a command has changed the entity. What is due is decided by the earliest time, and so
  /// is a pause, which keeps the time that is left.
  private func startsTime(_ operation: FleetOperation) -> Bool {
    guard !operation.isDue, operation.outcome.change != .none else { return false }
    return operation.command?.spec.subcommand != "PAUSE"
  }

  private func isRepetition(_ operation: FleetOperation) -> Bool {
    operation.outcome.change == .none && operation.outcome.statistics.repeated > 0
  }

  private func isRead(_ operation: FleetOperation) -> Bool {
    operation.command?.spec.flags.contains(.readOnly) ?? false
  }

  /// Refuses a change after a loss of records, or a new entity beyond the limits.
  private func check(
    _ operation: FleetOperation, isNew: Bool, at now: Int64
  ) throws(CommandError) {
    let until = partitions[operation.partition].epoch.refusedUntil
    guard until <= now else {
      throw CommandError(
        "UNAVAILABLE the servers have lost what was sent before, so nothing is allowed for "
          + "\((until - now) / 1_000_000 + 1)s more; INFO fleet says until when")
    }
    guard isNew, let client = operation.client else { return }
    do throws(EngineError) {
      try dispatcher.engine.checkLimits(client)
    } catch {
      guard case .limit(let name, let value) = error else { return }
      dispatcher.host.note(.limitReached(name, value, by: client, key: operation.key.key))
      throw CommandError("LIMIT \(name) is \(value) and reached")
    }
  }

  /// Runs a command on this daemon's copy.
  private func localOutcome(_ operation: FleetOperation) -> Workbench.Outcome {
    let now = dispatcher.host.now
    let time =
      partitions[operation.partition].clock.now(at: now.boot.microseconds) ?? now.wall.microseconds
    return decide(
      operation, copy(of: operation.key)?.record, at: time, isDegraded: !isRead(operation))
  }

  /// Decides a command without the servers. Returns false if the policy does not allow that.
  private func decideAlone(_ operation: FleetOperation) -> Bool {
    guard operation.command != nil || operation.action != nil,
      operation.command?.spec.flags.contains(.decidedByFleet) != true,
      isMirrored(operation.key, in: operation.partition)
    else { return false }
    // What was sent before may still be made, so its outcome stays.
    let outcome = localOutcome(operation)
    guard unreachable(operation, outcome) == .local else { return false }
    operation.take(outcome)
    guard !outcome.limits.isOpen else {
      charge(operation)
      return true
    }
    if case .record(let new) = outcome.change, !isRead(operation) {
      statistics.degraded += 1
      partitions[operation.partition].loading.noteLocalChange()
      setCopy(
        operation.key, new.map { FleetRecord(newVersion(), $0) }, number: 0,
        of: operation.partition, at: dispatcher.host.now)
      dispatcher.engine.publishShared(outcome.events)
    }
    confirm(operation)
    return true
  }

  /// What the policy of an entity wants while the servers cannot be reached.
  func unreachable(
    _ operation: FleetOperation, _ outcome: Workbench.Outcome? = nil
  ) -> FleetSettings.Unreachable {
    let policy = (outcome ?? operation.outcome).policy.flatMap {
      dispatcher.engine.settings.policies[$0]
    }
    return operation.action?.unreachable ?? policy?.unreachable ?? settings.unreachable
  }

  // MARK: Answers

  /// Takes the record that a server has answered with. If the stream may have brought a newer one
  /// since it was asked, the server is asked again.
  private func take(
    _ record: FleetRecord?, for operation: FleetOperation, at index: Int, asked: FleetPlace
  ) {
    let partition = partitions[index]
    // After a loading has begun, nobody knows what the stream brought before it.
    guard asked.loading == partition.loading.number else { return }
    if partition.copies[operation.key]?.record.version != record?.version {
      if let newest = lanes[operation.key]!.newest, newest.number > asked.position,
        newest.loading == asked.loading
      {
        return
      }
      if isWhole(index) { partition.stream.noteAhead(operation.key) }
    }
    setCopy(operation.key, record, number: 0, of: index, at: dispatcher.host.now)
    operation.seen = .some(record?.version)
  }

  func receive(
    _ answer: FleetAnswer, for operation: FleetOperation, at index: Int, asked: FleetPlace
  ) {
    defer { if operation.isOver, !operation.isAtStake { refundCharged(operation) } }
    switch answer.body {
    case .opened, .closed, .entries: break
    case .record(let record):
      take(record, for: operation, at: index, asked: asked)
      decide(operation)
    case .differs(let record):
      operation.wasNotMade()
      take(record, for: operation, at: index, asked: asked)
      tryAgain(operation, "other hosts change it all the time; try again")
    case .changed(let number, let problem):
      hasChanged(operation, number, problem, at: index, asked: asked)
    case .clock:
      operation.wasNotMade()
      waitForClock(operation, answer.engine)
    case .lease(let isOver):
      operation.wasNotMade()
      noteLease(isOver: isOver, of: operation)
      tryAgain(operation, "hosts come and go all the time; try again")
    case .epoch:
      operation.wasNotMade()
      partitions[index].health.mustOpen()
      park(operation)
      open(index)
    case .failed(let mayBeDone, let text):
      if mayBeDone, operation.isAtStake {
        return beUnsure(operation, "the server did not confirm it (\(text))")
      }
      operation.wasNotMade()
      guard !operation.isOver else { return leave(operation) }
      if let refusal = answer.refusal, !refusal.isPassing {
        return operation.isDue ? postpone(operation) : failForNow(operation, Self.text(refusal))
      }
      park(operation)
      // The server is reachable but did not execute it: retry once the partition is open again.
      if partitions[index].health.isConnected, partitions[index].health.isOpen {
        partitions[index].health.mustOpen()
        open(index)
      }
    }
  }

  /// The server has stored what was decided; with a problem, perhaps not for good.
  private func hasChanged(
    _ operation: FleetOperation, _ number: Int64, _ problem: String?, at index: Int,
    asked: FleetPlace
  ) {
    guard let version = operation.change?.version,
      case .record(let new) = operation.outcome.change
    else { return }
    let partition = partitions[index]
    let newest = lanes[operation.key]!.newest ?? (0, 0)
    let loading = partition.loading.number
    // Else the stream has brought a newer record, or a loading brings it.
    if asked.loading == loading, newest.loading != loading || newest.number <= number {
      setCopy(
        operation.key, new.map { FleetRecord(version, $0) }, number: number, of: index,
        at: dispatcher.host.now)
      if number > partition.stream.position { partition.stream.noteAhead(operation.key) }
    }
    partition.health.noteAnswer()
    if problem == nil {
      for part in operation.parts where part.isOver { part.action?.wasLate(part.answer.result) }
      if operation.isOver { settle(operation) }
    }
    guard !operation.isOver else { return leave(operation) }
    if let problem { return beUnsure(operation, problem) }
    partition.stream.confirm(number)
    confirm(operation)
  }

  func tryAgain(_ operation: FleetOperation, _ problem: String) {
    operation.attempts += 1
    statistics.conflicts += 1
    guard operation.attempts < Self.maximumAttempts || operation.isDue else {
      return failForNow(operation, problem)
    }
    decide(operation)
  }

  /// Handles a change that reached the server too early or too late by the server's clock.
  private func waitForClock(_ operation: FleetOperation, _ engine: Int64?) {
    guard let engine, let decided = operation.change?.earliest, engine < decided,
      let now = partitions[operation.partition].clock.now(at: boot)
    else { return tryAgain(operation, "the command waited for too long; try again") }
    // If the clock was set back, nothing happens until it has caught up. Else this answer came
    // faster than all before, so the latest time is earlier than it seemed.
    guard engine < now else { return decide(operation) }
    let behind = Interval(microseconds: now - engine).millisecondsRoundedUp
    hold(
      operation, for: now - engine,
      or:
        "the server's clock is \(behind)ms behind what it or the server before has shown; try again "
        + "then")
  }

  /// Decides an operation again after some time; fails it if it has less.
  private func hold(_ operation: FleetOperation, for microseconds: Int64, or problem: String) {
    if operation.isDue { return postpone(operation) }
    let due = boot + microseconds
    guard due < operation.deadline else {
      // If it could have waited for so long, what took too long is something else.
      let isShort = microseconds < settings.timeout.microseconds
      return failForNow(operation, isShort ? lateText : problem)
    }
    hold(operation, .awaitsClock, until: due)
  }

  private func failByClock(_ operation: FleetOperation) {
    if operation.isDue { return postpone(operation) }
    failForNow(
      operation,
      "the server's clock is more than fleet.max-clock-skew ahead of what it or the server before "
        + "has shown; correct that clock")
  }

  private var lateText: String {
    "the servers did not answer within \(settings.timeout.millisecondsRoundedUp)ms"
  }

  // MARK: Replies

  private func confirm(_ operation: FleetOperation) {
    if operation.outcome.change != .none {
      statistics.confirmed += 1
    } else if !operation.outcome.events.isEmpty {
      // A refusal: the subscribers of this daemon receive it.
      dispatcher.engine.publishShared(operation.outcome.events)
    }
    dispatcher.engine.statistics.decisions += operation.outcome.statistics
    dispatcher.engine.notices += operation.outcome.notices
    noteMoved(operation)
    operation.charged = []
    operation.state = .confirmed
    settle(operation) { [self] in each(operation) { end($0, $0.answer.reply) } }
  }

  func timeOut(_ operation: FleetOperation) {
    let whole = operation.whole ?? operation
    let isCurrent = lanes.isCurrent(whole)
    // What it changes is changed; the rest follows.
    if whole.state == .confirmed { return end(operation, operation.answer.reply) }
    if isCurrent, whole.asks, !whole.hasFailed {
      whole.hasFailed = true
      if partitions[operation.partition].health.noteFailure() {
        times.beat(noLaterThan: boot + Self.probe)
      }
    }
    if operation.isDue { return postpone(operation) }
    guard isCurrent else {
      return failForNow(operation, "too many commands are about it at once")
    }
    let text = partitions[operation.partition].health.refusal.map(Self.text) ?? lateText
    guard !whole.isAtStake else { return beUnsure(operation, text) }
    failForNow(operation, text)
  }

  /// Decides a command without the servers if allowed, else fails it. The servers did nothing.
  private func failForNow(_ operation: FleetOperation, _ problem: String) {
    guard operation.several.isEmpty else { return each(operation) { failForNow($0, problem) } }
    guard !operation.isOver, !operation.isDue else { return fail(operation, "") }
    if !partitions[operation.partition].health.isUsable, decideAlone(operation) { return }
    refuse(operation, problem)
  }

  /// Ends an operation that the servers cannot decide now.
  private func refuse(_ operation: FleetOperation, _ problem: String) {
    guard operation.several.isEmpty else { return each(operation) { refuse($0, problem) } }
    if !operation.isOver { statistics.unavailable += 1 }
    fail(operation, "UNAVAILABLE \(problem). Nothing was done")
  }

  /// Ends an operation with an error. Nothing was done for it.
  private func fail(_ operation: FleetOperation, _ problem: String) {
    each(operation) { end($0, Workbench.error(problem)) }
  }

  /// Does something to each part of an operation that has not ended.
  private func each(_ operation: FleetOperation, _ body: (FleetOperation) -> Void) {
    guard !operation.several.isEmpty else { return body(operation) }
    for part in operation.several where !part.isOver { body(part) }
  }

  private func beUnsure(_ operation: FleetOperation, _ problem: String) {
    guard operation.several.isEmpty else { return each(operation) { beUnsure($0, problem) } }
    // Trying again shows whether it was done.
    if operation.isDue { return postpone(operation) }
    if !operation.isOver { statistics.unsure += 1 }
    let key = operation.key.key
    operation.answer.result.isUnsure = true
    let what =
      operation.action?.isRemembered ?? true
      ? "It may have been done: repeat it with the same TOKEN, or read"
      : "'\(quoted(key.span))' may have been charged; nothing else was done"
    end(operation, Workbench.error("UNSURE \(problem). \(what)"))
  }

  func end(_ operation: FleetOperation, _ reply: [UInt8] = []) {
    let wasOver = operation.isOver
    if !wasOver, case .command(_, let slot) = operation.purpose {
      dispatcher.fill(slot) { $0.bytes = reply }
    }
    operation.state = operation.isAtStake ? .unsure : .over
    times.cancel(&operation.timer)
    partitions[operation.partition].forgetParked()
    leave(operation)
    if !operation.isAtStake { refundCharged(operation) }
    guard !wasOver else { return }
    if case .fetch(let fetch) = operation.purpose { finish(fetch, reply) }
    if let action = operation.action {
      if !reply.isEmpty { operation.answer.result.problem = reply }
      action.ended(operation.answer.result)
    }
    if let whole = operation.whole, whole.several.allSatisfy(\.isOver) { end(whole) }
  }
}
