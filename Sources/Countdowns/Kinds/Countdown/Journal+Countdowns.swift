/// What the journal keeps of countdowns, besides decisions about them.
extension Journal {
  /// Notes that the code of a countdown expires, of which its limits learn.
  func willExpire(_ index: UInt32, at now: Moment) { willRun(.expired, index, at: now) }

  /// Notes that a countdown is over, if its limits have room, which depends on who else waits.
  func willBeOver(_ index: UInt32, at now: Moment) { willRun(.over, index, at: now) }

  /// Notes that something is due for a countdown. A replay then runs all that is due for it.
  private func willRun(_ what: JournalEntry.What, _ index: UInt32, at now: Moment) {
    beginSegmentIfDue(at: now)
    let key = engine.countdowns.key(index)
    touchWithLimits(index, key, at: now)
    var entry = JournalEntry(what, at: now)
    entry.key = conceal(key)
    append(entry)
  }

  /// Notes the state of a countdown, of its limits, and of those that learn about its codes.
  func touchWithLimits(_ index: UInt32, _ key: [UInt8], at now: Moment) {
    touch(.countdown, key, at: now)
    guard let sending = engine.countdowns.sending(index) else { return }
    willChange(sending.limits, at: now)
    for send in sending.record.openCodes { willChange(send.limits, at: now) }
  }
}

extension CountdownKind: JournaledKind {
  static func willEnd(_ key: [UInt8], in journal: Journal, at now: Moment) {
    if let index = journal.engine.countdowns.find(key) {
      journal.touchWithLimits(index, key, at: now)
    }
  }

  /// Returns the record of a countdown, without what decides nothing.
  static func records(_ key: [UInt8], for journal: Journal) -> [[UInt8]] {
    guard let index = journal.engine.countdowns.find(key) else { return [] }
    let entity = journal.engine.countdowns[index]
    var state = CountdownEntity(
      machine: entity.machine, generation: entity.generation, uid: entity.uid, titles: nil)
    state.tokens = entity.tokens.map(journal.conceal(token:))
    if entity.owner != .none { state.owner = .connection(Replay.connection) }
    if let sending = entity.sending {
      let copy = Sending(sending.policy, sending.record)
      copy.isInForce = sending.isInForce
      (copy.ownUntil, copy.ownLeft) = (sending.ownUntil, sending.ownLeft)
      copy.limits = sending.limits.map { ThrottleKind.conceal($0, for: journal) }
      conceal(&copy.record.sends, for: journal)
      conceal(&copy.record.past, for: journal)
      state.sending = copy
    }
    var writer = StateWriter(offset: 0)
    write(journal.conceal(key).span, &state, to: &writer)
    return [writer.bytes]
  }

  private static func conceal(_ sends: inout [SendRecord.Send], for journal: Journal) {
    for index in sends.indices {
      sends[index].limits = sends[index].limits.map { ThrottleKind.conceal($0, for: journal) }
    }
  }
}
