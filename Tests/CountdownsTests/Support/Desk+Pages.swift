import Countdowns

extension Desk {
  @discardableResult
  func appear(
    _ key: String, refresh: PageLoad.Refresh? = nil, timeout: Int64? = nil,
    screen: String? = nil, grace: Int64? = nil, minimum: Int64? = nil, owner: Owner? = nil,
    uid: UInt32 = 1_000
  ) throws -> PageView {
    var appearance = PageAppearance()
    appearance.refresh = refresh
    appearance.timeout = timeout.map { .milliseconds($0) }
    appearance.screen = screen.map { Array($0.utf8) }
    appearance.grace = grace.map { .milliseconds($0) }
    appearance.minimum = minimum.map { .milliseconds($0) }
    appearance.owner = owner
    return try with(key) { try engine.appearPage($0, appearance, by: client(1, uid: uid), at: now) }
  }

  func disappear(_ key: String) throws {
    _ = try with(key) { try engine.disappearPage($0, by: client(1), at: now) }
  }

  func loaded(
    _ key: String, items: Int64? = nil, message: String? = nil, generation: Generation? = nil
  ) throws -> Reason? {
    let message = message.map { Array($0.utf8) }
    return try with(key) {
      try engine.pageLoaded(
        $0, items: items, message: message, generation: generation, by: client(1), at: now)
    }.refusal
  }

  func failed(
    _ key: String, message: String? = nil, generation: Generation? = nil
  ) throws -> Reason? {
    let message = message.map { Array($0.utf8) }
    return try with(key) {
      try engine.pageFailed($0, message: message, generation: generation, by: client(1), at: now)
    }.refusal
  }

  func retry(_ key: String, uid: UInt32 = 1_000) throws -> Reason? {
    try with(key) {
      try engine.retryPage($0, generation: nil, by: client(1, uid: uid), at: now)
    }.refusal
  }

  func refresh(_ key: String, generation: Generation? = nil) throws -> Reason? {
    try with(key) {
      try engine.refreshPage($0, generation: generation, by: client(1), at: now)
    }.refusal
  }

  func closePage(_ key: String) throws {
    _ = try with(key) { try engine.closePage($0, generation: nil, at: now) }
  }

  func page(_ key: String) -> PageView? { with(key) { engine.page($0, at: now) } }
}
