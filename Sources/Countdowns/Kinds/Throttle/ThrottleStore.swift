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
  /// The keys of derived limits, by name, where the key of the countdown is not known.
  var derivedKeys: [String: [UInt8]] = [:]

  func isFree(_ index: UInt32) -> Bool { !table.contains(index) && !pages.contains(index) }

  /// Notes whether a limit is blocked. Each change of a block comes here; `release` ends it.
  func noteBlock(of index: UInt32) {
    let limit = EntityRef(.throttle, index)
    let isBlocked = table[index].machine.limit?.blockedUntil != nil
    if isBlocked { blocked.insert(limit) } else { blocked.remove(limit) }
  }
}

extension Engine {
  package var blockedLimits: Int { stores.throttles.blocked.count }

  package var notices: [EngineNotice] {
    get { stores.throttles.notices }
    set { stores.throttles.notices = newValue }
  }
}
