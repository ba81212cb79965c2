import Memory

/// All rate limits, with the pages of sends of named limits.
final class ThrottleStore: TableStore {
  typealias State = GuardEntity<Throttle>

  let table = EntityTable<GuardEntity<Throttle>>()
  /// The pages of sends, which are stored at slots of their own among the rate limits.
  var pages = PagedTable<SendPage>()
  /// Sends that were restored before their limit.
  var pagesWithoutLimit: [[UInt8]: [(slot: UInt32, sends: [LimitSends.Send])]] = [:]
  /// The limits that are blocked.
  var blocked = EntitySet()
  /// What is to be logged.
  var notices: [EngineNotice] = []
  /// The newest reload, while limits have the rules of before.
  var reload: Reload?

  struct Reload {
    let at: Instant
    /// The limits whose rules are others.
    let names: Set<String>
    /// The first index that was not looked at.
    var next: UInt32 = 0
  }

  /// The keys of derived limits, by name, where the key of the countdown is not known.
  var derivedKeys: [String: [UInt8]] = [:]

  func isFree(_ index: UInt32) -> Bool { !table.contains(index) && !pages.contains(index) }

  /// Notes whether a limit is blocked. Each change of a block comes here; `release` ends it.
  func noteBlock(of index: UInt32) {
    let limit = EntityRef(.throttle, index)
    let isBlocked = table[index].machine.blockedUntil != nil
    if isBlocked { blocked.insert(limit) } else { blocked.remove(limit) }
  }
}

/// Limits have the rules in force: from a reload on, and from the start on.
extension Engine {
  /// Notes which limits get other rules from now on.
  func willReload(_ new: EngineSettings, at now: Moment) {
    // Two reloads in such a short time are rare.
    var budget = Int.max
    adoptRules(budget: &budget)
    guard throttles.count > 0 else { return }
    let names = new.throttles.keys.filter { settings.throttles[$0] != new.throttles[$0] }
    if !names.isEmpty {
      stores.throttles.reload = ThrottleStore.Reload(at: now.boot, names: Set(names))
    }
  }

  /// Gives limits the rules of the newest reload, a few at a time.
  func adoptRules(budget: inout Int) {
    guard var index = stores.throttles.reload?.next else { return }
    while budget > 0, index < throttles.indexEnd {
      adoptRules(index)
      index += 1
      budget -= 1
    }
    stores.throttles.reload?.next = index
    if index >= throttles.indexEnd { stores.throttles.reload = nil }
  }

  /// Gives a limit the rules of the newest reload, as of its moment.
  func adoptRules(_ index: UInt32) {
    guard let reload = stores.throttles.reload, throttles.contains(index) else { return }
    let key = throttles[index].key
    guard let name = LimitRules.name(of: key.span), reload.names.contains(name) else { return }
    adoptRules(index, at: reload.at)
  }

  /// Gives a limit the rules in force, as of a moment.
  func adoptRules(_ index: UInt32, at moment: Instant) {
    let key = throttles[index].key
    guard !throttles[index].isOver, let rules = rules(of: key.span),
      throttles[index].machine.adopt(rules, at: moment)
    else { return }
    noteChange(ThrottleKind.self, index)
    arm(ThrottleKind.self, index)
  }
}

extension Engine {
  package var blockedLimits: Int { stores.throttles.blocked.count }

  package var notices: [EngineNotice] {
    get { stores.throttles.notices }
    set { stores.throttles.notices = newValue }
  }
}
