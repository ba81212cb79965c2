import ArgumentParser
import CountdownClient

/// The channels and patterns that `watch` subscribes to.
struct WatchTarget: Equatable {
  var channels: [EventChannel] = []

  /// - Parameters:
  ///   - names: keys, patterns of keys, or whole channels (`hud:main`); none means all.
  ///   - kinds: the kinds of the keys: `countdown`, `hud`, `timer`, …; none means countdowns, or
  ///     everything if there are no names either.
  init(names: [String], kinds: [String]) {
    guard !names.isEmpty || !kinds.isEmpty else {
      channels = [.everything]
      return
    }
    let kinds = kinds.isEmpty ? ["countdown"] : kinds
    for name in names.isEmpty ? ["*"] : names {
      let isChannel = Self.kinds.contains { name.hasPrefix($0 + ":") }
      for channel in isChannel ? [name] : kinds.map({ "\($0):\(name)" }) {
        channels.append(.init(name: channel, isPattern: Self.isPattern(name)))
      }
    }
  }

  /// The prefixes of channels.
  static let kinds = CountdownEvent.Kind.allCases.map(\.rawValue)

  /// Returns whether a name contains special characters of patterns.
  static func isPattern(_ name: String) -> Bool {
    name.contains { "*?[\\".contains($0) }
  }
}

/// The flags for the kinds of the keys.
extension CountdownEvent.Kind: EnumerableFlag {
  public static func help(for kind: Self) -> ArgumentHelp? {
    let plural = EventLine.entities[kind]?.plural ?? ""
    return "Names are those of \(plural)\(kind == .countdown ? " (default)" : "")."
  }
}
