/// What the journal keeps of limits, besides decisions about them.
extension Journal {
  /// Notes the states of limits that are asked.
  func willCharge(_ keys: [[UInt8]], at now: Moment) {
    for key in keys {
      touch(.throttle, key, at: now)
      if !limits.contains(key) { limits.append(key) }
    }
  }

  func willChange(_ keys: [[UInt8]], at now: Moment) {
    for key in keys { touch(.throttle, key, at: now) }
  }

  func concealLimit(_ key: [UInt8]) -> [UInt8] { ThrottleKind.conceal(key, for: self) }
}

extension ThrottleKind: JournaledKind {
  /// Returns the record of a rate limit, and those of its sends.
  static func records(_ key: [UInt8], for journal: Journal) -> [[UInt8]] {
    guard let index = journal.engine.throttles.find(key) else { return [] }
    var state = journal.engine.throttles[index]
    let hidden = conceal(key, for: journal)
    state.owner = .none
    state.tokens = state.tokens.map(journal.conceal(token:))
    var writer = StateWriter(offset: 0)
    write(hidden.span, &state, to: &writer)
    var records = [writer.bytes]
    for sends in state.machine.limit?.sends.inPages ?? [] {
      var writer = StateWriter(offset: 0)
      writer.page(of: hidden, sends)
      records.append(writer.bytes)
    }
    return records
  }

  static func noteRest(_ key: [UInt8], in journal: Journal, at now: Moment) {
    guard let index = journal.engine.throttles.find(key),
      let promised = journal.engine.throttles[index].machine.limit?.promised
    else { return }
    var entry = JournalEntry(.promised, at: now)
    entry.kind = kind
    entry.key = conceal(key, for: journal)
    entry.until = promised
    journal.append(entry)
  }

  /// The name of a limit stays.
  static func conceal(_ key: [UInt8], for journal: Journal) -> [UInt8] {
    guard let hash = journal.hash, !key.isEmpty else { return key }
    guard let name = LimitRules.name(of: key.span), journal.engine.settings.throttles[name] != nil
    else {
      return hash(key)
    }
    let rest = Array(key.dropFirst(name.utf8.count + 1))
    return LimitRules.key(name, rest.isEmpty ? [] : hash(rest))
  }
}
