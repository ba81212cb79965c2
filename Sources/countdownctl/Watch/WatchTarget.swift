import CountdownClient

/// What `watch` subscribes to.
struct WatchTarget: Equatable {
  var channels: [String] = []
  var patterns: [String] = []

  /// - Parameters:
  ///   - names: keys, patterns of keys, or whole channels (`hud:main`); none means all.
  ///   - kinds: what the keys are keys of: `countdown`, `hud`, `timer`, …
  init(names: [String], kinds: [String]) {
    for name in names.isEmpty ? ["*"] : names {
      let isChannel = Self.kinds.contains { name.hasPrefix($0 + ":") }
      for channel in isChannel ? [name] : kinds.map({ "\($0):\(name)" }) {
        if Self.isPattern(name) { patterns.append(channel) } else { channels.append(channel) }
      }
    }
  }

  /// What channels begin with.
  static let kinds = CountdownEvent.Kind.allCases.filter { $0 != .connection }.map(\.rawValue)

  /// Whether there is something in it that a pattern gives a meaning to.
  static func isPattern(_ name: String) -> Bool {
    name.contains { "*?[\\".contains($0) }
  }
}
