import ArgumentParser
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

/// The flags that tell what keys name.
enum WatchKind: String, EnumerableFlag {
  case countdown, hud, timer, throttle, once, gate, debounce, scope, nav, page

  static func help(for kind: WatchKind) -> ArgumentHelp? {
    switch kind {
    case .countdown: "Keys name countdowns, the default."
    case .hud: "Keys name screens of HUDs."
    case .timer: "Keys name timers."
    case .throttle: "Keys name rate limits."
    case .once: "Keys name requests that run at most once."
    case .gate: "Keys name sessions of gates."
    case .debounce: "Keys name debouncers."
    case .scope: "Keys name scopes."
    case .nav: "Keys name navigation stacks."
    case .page: "Keys name pages."
    }
  }
}
