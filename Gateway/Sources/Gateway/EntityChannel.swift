import CountdownClient

/// A channel of one entity, `KIND:KEY`.
struct EntityChannel: Hashable, Sendable {
  let kind: CountdownEvent.Kind
  let key: String

  /// The maximum length of a key, in bytes.
  private static let longestKey = 512

  init?(_ channel: String) {
    let parts = channel.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let kind = CountdownEvent.Kind(rawValue: String(parts[0]))
    guard parts.count == 2, CountdownEvent.Kind.allCases.contains(kind),
      (1...Self.longestKey).contains(parts[1].utf8.count)
    else { return nil }
    self.kind = kind
    key = String(parts[1])
  }

  /// The command that reads the entity.
  var get: [String] { [kind.rawValue.uppercased(), "GET", key] }

  var events: EventChannel { EventChannel(kind, key) }

  /// The channel as a pattern that matches nothing else.
  var pattern: String {
    var pattern = kind.rawValue + ":"
    for character in key.unicodeScalars {
      if "*?[]\\^".unicodeScalars.contains(character) { pattern += "\\" }
      pattern.unicodeScalars.append(character)
    }
    return pattern
  }
}
