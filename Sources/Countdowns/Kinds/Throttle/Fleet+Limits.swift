import Wire

/// Named limits of a fleet, which are in different partitions. A command takes from one after the
/// other, in the order of their keys. If one refuses, or the command is not done after all, the
/// others are given back, so no limit is ever exceeded. Meanwhile a limit may seem fuller than it
/// is. What a daemon that dies has taken comes back with time.
extension Fleet {
  /// Returns whether a command takes from several limits.
  func takesSeveral(_ call: borrowing Call) -> Bool {
    call.spec.group.kind == .throttle && call.spec.subcommand == "TAKE"
      && LimitRules.endOfKeys(call.arguments, from: 3) > 3
  }

  /// Takes from limits for the command's handler.
  func take(_ request: LimitsRequest, _ call: Call) throws(CommandError) {
    // The copies say at once what most refusals are.
    let known = try call.run { () throws(EngineError) in
      try call.engine.checkNamed(request)
      // A copy may know that the token belongs to another request.
      _ = try call.engine.accepted(request)
      return call.engine.lookAtLimits(request, at: call.now)
    }
    statistics.commands += 1
    let slot = call.session.awaitReply(isBarrier: false)
    guard request.token != nil || known.refusal == nil && !request.isPeek else {
      return fill(slot, known)
    }
    let take = LimitsTake(request, by: call.client, settings.unreachable) { [self] take in
      if let problem = take.problem { return dispatcher.fill(slot) { $0.bytes = problem } }
      // The copies have what was taken. What refused is the longest wait that is known.
      var known = dispatcher.engine.lookAtLimits(
        request, isRepeated: take.isRepeated, at: dispatcher.host.now)
      for charge in take.taken { known.name(charge.share, by: dispatcher.engine) }
      known.refusal = take.refusal.map { refusal in
        known.refusal.map { $0.until > refusal.until ? $0 : refusal } ?? refusal
      }
      fill(slot, known)
    }
    if request.token == nil { self.take(take) } else { recall(take) }
  }

  private func fill(_ slot: ReplySlot, _ known: LimitsAnswer) {
    // All limits are those of the request, which the user may use.
    dispatcher.fill(slot) { $0.record(known.reply(at: dispatcher.host.now), for: nil) }
  }

  // MARK: Taking

  /// Asks the limit that is charged last whether it knows the token, and takes if it does not.
  private func recall(_ take: LimitsTake) {
    var request = take.request
    request.isPeek = true
    let last = take.left[0]
    let action = ask(last, request, take) { [self] result in
      if take.isOver(with: result) { take.ended(take) } else { self.take(take) }
    }
    begin(.action(action), about: FleetKey(.throttle, last))
  }

  /// Takes from the limits that were not asked yet. The last one decides, and remembers the token.
  private func take(_ take: LimitsTake) {
    guard let key = take.left.popLast() else { return take.ended(take) }
    var request = take.request
    if !take.left.isEmpty { request.token = nil }
    let action = ask(key, request, take) { [self] result in
      guard take.isOver(with: result) else {
        take.taken.append(request.charge(key, result))
        return self.take(take)
      }
      // A repetition finds out whether it was done after all.
      guard request.token == nil || !result.isUnsure else { return take.ended(take) }
      let taken = take.taken
      take.taken = []
      refund(taken, take.unreachable) { take.ended(take) }
    }
    action.isRemembered = request.token != nil
    if !action.isRemembered {
      action.wasLate = { [self] result in
        refund([request.charge(key, result)], take.unreachable)
      }
    }
    begin(.action(action), about: FleetKey(.throttle, key))
  }

  private func ask(
    _ key: [UInt8], _ request: LimitsRequest, _ take: LimitsTake,
    ended: @escaping (FleetAction.Result) -> Void
  ) -> FleetAction {
    var request = request
    request.keys = [key]
    return FleetAction(by: take.client, take.unreachable) { engine, now throws(EngineError) in
      let answer = try engine.takeLimits(request, by: take.client, at: now)
      return FleetAction.Result(
        refusal: answer.refusal, wait: answer.refusal.map { $0.until - now.boot } ?? .zero,
        isRepeated: answer.isRepeated, id: answer.id, time: now.boot)
    } ended: { [self] result in
      take.refusal = result.refusal
      take.refusal?.until = dispatcher.host.now.boot + result.wait
      ended(result)
    }
  }

  /// Gives back what was taken, but for what has come back with time. Whoever has taken meanwhile
  /// may have had the use of that: a rate does not know.
  private func refund(
    _ charges: [LimitCharge], _ unreachable: FleetSettings.Unreachable,
    then: @escaping () -> Void = {}
  ) {
    change(
      charges.map { ($0.share.key, $0) }, unreachable,
      { $0.refund($1.share, cost: $1.cost, taken: $1.taken, at: $2) }, then)
  }

  /// Changes limits, each of them once, and all at the same time.
  private func change<Change>(
    _ changes: [(key: [UInt8], Change)], _ unreachable: FleetSettings.Unreachable,
    _ body: @escaping (Engine, Change, Moment) -> Void, _ then: @escaping () -> Void
  ) {
    let limits = Dictionary(grouping: changes) { $0.key }
    var left = limits.count
    guard left > 0 else { return then() }
    for (key, changes) in limits.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      let action = FleetAction(by: nil, unreachable) { engine, now throws(EngineError) in
        for (_, change) in changes { body(engine, change, now) }
        return FleetAction.Result()
      } ended: { _ in
        left -= 1
        if left == 0 { then() }
      }
      begin(.action(action), about: FleetKey(.throttle, key))
    }
  }

  // MARK: Waiting

  /// Returns this daemon's copy of a limit, for a decision at a time on a server's clock.
  func copyOfLimit(_ key: [UInt8], at time: Int64) -> SharedLimits.Copy? {
    let key = FleetKey(.throttle, key)
    let partition = partitions[partition(of: key)]
    guard let record = partition.copies[key]?.record else { return nil }
    let offset = (partition.clock.now(at: boot) ?? time) - time
    return (record.bytes, offset, turns.promises[key.key])
  }

  // MARK: Starts

  /// Charges the limits of a start, which is decided again afterwards.
  func charge(_ operation: FleetOperation) {
    guard let client = operation.client else { return }
    let (work, unreachable) = (operation.outcome.limits, unreachable(operation))
    var request = LimitsRequest(keys: work.asked)
    request.hasCode = work.hasCode
    operation.state = .atLimits
    let take = LimitsTake(request, by: client, unreachable) { [self] take in
      operation.charged = take.taken
      guard !operation.isOver else { return refundCharged(operation) }
      operation.state = .underWay
      if let problem = take.problem { return end(operation, problem) }
      guard take.refusal != nil else { return decide(operation) }
      // The copies know it now.
      tryAgain(operation, "others take from its limits all the time; try again")
    }
    // They were charged for another START of this key.
    refundCharged(operation) { [self] in self.take(take) }
  }

  /// Gives back what was charged for a start that was not made.
  func refundCharged(_ operation: FleetOperation, then: @escaping () -> Void = {}) {
    let charged = operation.charged
    operation.charged = []
    refund(charged, unreachable(operation), then: then)
  }

  /// Does what a change of a countdown means for limits.
  func settle(_ operation: FleetOperation, then: @escaping () -> Void = {}) {
    let settled = operation.outcome.limits.settled.filter { settlement in
      settlement.outcome == nil
        || dispatcher.engine.rules(of: settlement.share.key.span)?.rules.passed != nil
    }
    guard !settled.isEmpty else { return then() }
    change(
      settled.map { ($0.share.key, $0) }, unreachable(operation), { $0.settle($1, at: $2) }, then)
  }
}

extension LimitsRequest {
  /// Returns what was taken from a limit.
  fileprivate func charge(_ key: [UInt8], _ result: FleetAction.Result) -> LimitCharge {
    LimitCharge(share: LimitShare(key: key, id: result.id), cost: cost, taken: result.time)
  }
}

extension LimitsAnswer {
  /// Notes the id of what was taken from one of the limits.
  fileprivate mutating func name(_ share: LimitShare, by engine: Engine) {
    guard let place = views.firstIndex(where: { $0.key == share.key }),
      let rules = engine.rules(of: share.key.span)
    else { return }
    views[place].name(share.id, by: rules)
  }
}

/// Takes from several limits, under way.
private final class LimitsTake {
  let request: LimitsRequest
  let client: Client
  let unreachable: FleetSettings.Unreachable
  /// Called once: with what was taken, or with the refusal or the problem.
  let ended: (LimitsTake) -> Void
  /// The keys that were not asked yet; the next one is the last.
  var left: [[UInt8]]
  var taken: [LimitCharge] = []
  var refusal: Refusal?
  var problem: [UInt8]?
  var isRepeated = false

  init(
    _ request: LimitsRequest, by client: Client, _ unreachable: FleetSettings.Unreachable,
    ended: @escaping (LimitsTake) -> Void
  ) {
    self.request = request
    self.client = client
    self.unreachable = unreachable
    self.ended = ended
    left = request.keys.sorted { $1.lexicographicallyPrecedes($0) }
  }

  /// Notes what a limit has answered. Returns whether no other limit has to be asked.
  func isOver(with result: FleetAction.Result) -> Bool {
    (problem, isRepeated) = (result.problem, result.isRepeated)
    return problem != nil || isRepeated || refusal != nil
  }
}
