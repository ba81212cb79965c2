/// The channels and patterns that connections are subscribed to.
struct Subscriptions: ~Copyable {
  /// The subscribers of each entity's channel: by kind, then by key.
  private var channels = EntityKind.allCases.map { _ in [[UInt8]: [UInt64]]() }
  /// The subscribers of channels that no entity can ever have.
  private var otherChannels: [[UInt8]: [UInt64]] = [:]
  private var patterns = PatternTable()
  private var ofConnection: [UInt64: Own] = [:]
  private var departing: [Departing] = []
  /// The number of patterns in the tables, by the user of their connections.
  private var patternsOfUser: [UInt32: Int] = [:]

  /// The subscriptions that a closed connection still has in the tables.
  private struct Departing {
    let connection: UInt64
    let uid: UInt32
    var channels: Set<[UInt8]>.Iterator
    var patterns: Set<[UInt8]>.Iterator
  }

  /// The subscriptions of one connection.
  struct Own {
    let uid: UInt32
    var channels: Set<[UInt8]> = []
    var patterns: Set<[UInt8]> = []
    var count: Int { channels.count + patterns.count }
  }

  var patternCount: Int { patterns.count }
  var channelCount: Int {
    channels.reduce(otherChannels.count) { $0 + $1.count }
  }

  func own(_ connection: UInt64) -> Own? { ofConnection[connection] }

  /// Returns the number of patterns of all connections of a user. Patterns of a closed connection
  /// count until they are cleared up, as they cost as much until then.
  func patternCount(of uid: UInt32) -> Int { patternsOfUser[uid] ?? 0 }

  /// The most channels and patterns of a connection, and the most patterns of a user.
  var mostOfConnection: Int { ofConnection.values.map(\.count).max() ?? 0 }
  var mostPatternsOfUser: Int { patternsOfUser.values.max() ?? 0 }

  // MARK: Changing

  /// Subscribes a connection to a channel. Returns false if it was subscribed before.
  mutating func subscribe(_ client: Client, to channel: [UInt8]) -> Bool {
    let connection = client.connection
    guard
      ofConnection[connection, default: Own(uid: client.uid)].channels.insert(channel).inserted
    else { return false }
    if let (kind, key) = Self.parse(channel) {
      channels[Int(kind.rawValue)][key, default: []].append(connection)
    } else {
      otherChannels[channel, default: []].append(connection)
    }
    return true
  }

  mutating func subscribe(_ client: Client, toPattern pattern: [UInt8]) -> Bool {
    let connection = client.connection
    guard
      ofConnection[connection, default: Own(uid: client.uid)].patterns.insert(pattern).inserted
    else { return false }
    patterns.add(connection, to: pattern)
    patternsOfUser[client.uid, default: 0] += 1
    return true
  }

  mutating func unsubscribe(_ connection: UInt64, from channel: [UInt8]) {
    guard ofConnection[connection]?.channels.remove(channel) != nil else { return }
    withdraw(connection, from: channel)
    forgetIfEmpty(connection)
  }

  private mutating func withdraw(_ connection: UInt64, from channel: [UInt8]) {
    if let (kind, key) = Self.parse(channel) {
      Self.remove(connection, from: key, in: &channels[Int(kind.rawValue)])
    } else {
      Self.remove(connection, from: channel, in: &otherChannels)
    }
  }

  mutating func unsubscribe(_ connection: UInt64, fromPattern pattern: [UInt8]) {
    guard let uid = ofConnection[connection]?.uid,
      ofConnection[connection]?.patterns.remove(pattern) != nil
    else { return }
    withdraw(connection, of: uid, fromPattern: pattern)
    forgetIfEmpty(connection)
  }

  private mutating func withdraw(
    _ connection: UInt64, of uid: UInt32, fromPattern pattern: [UInt8]
  ) {
    patterns.remove(connection, from: pattern)
    let count = patternCount(of: uid) - 1
    patternsOfUser[uid] = count == 0 ? nil : count
  }

  /// Ends up to `budget` subscriptions of closed connections, `connection` one of them. If some of
  /// the budget is left, all of them have ended.
  mutating func unsubscribe(_ connection: UInt64, budget: inout Int) {
    // It receives nothing more, so its own list is dropped at once. Iterators visit the rest, as
    // looking for the first element of a shrinking set each time is quadratic.
    if let own = ofConnection.removeValue(forKey: connection) {
      departing.append(
        Departing(
          connection: connection, uid: own.uid, channels: own.channels.makeIterator(),
          patterns: own.patterns.makeIterator()))
    }
    while budget > 0, let last = departing.indices.last {
      budget -= 1
      if let channel = departing[last].channels.next() {
        withdraw(departing[last].connection, from: channel)
      } else if let pattern = departing[last].patterns.next() {
        withdraw(departing[last].connection, of: departing[last].uid, fromPattern: pattern)
      } else {
        departing.removeLast()
      }
    }
  }

  private mutating func forgetIfEmpty(_ connection: UInt64) {
    if ofConnection[connection]?.count == 0 { ofConnection[connection] = nil }
  }

  static func remove(
    _ connection: UInt64, from name: [UInt8], in table: inout [[UInt8]: [UInt64]]
  ) {
    guard let index = table[name]?.firstIndex(of: connection) else { return }
    table[name]!.swapAt(index, table[name]!.count - 1)
    table[name]!.removeLast()
    if table[name]!.isEmpty { table[name] = nil }
  }

  // MARK: Asking

  /// The subscriptions of all connections.
  var all: [(connection: UInt64, channels: Set<[UInt8]>, patterns: Set<[UInt8]>)] {
    ofConnection.map { ($0.key, $0.value.channels, $0.value.patterns) }
  }

  /// Whether there are any subscriptions at all.
  var isAnythingWatched: Bool { !ofConnection.isEmpty || !departing.isEmpty }

  /// Returns whether a connection is subscribed to the events of an entity. O(its patterns): each
  /// comparison is taken from the budget.
  func isSubscribed(
    _ connection: UInt64, to kind: EntityKind, _ key: [UInt8], budget: inout Int
  ) -> Bool {
    guard let own = ofConnection[connection] else { return false }
    let channel = kind.channelPrefix + key
    if own.channels.contains(channel) { return true }
    for pattern in own.patterns {
      budget -= Glob.cost(pattern, channel.count)
      if Glob.matches(pattern, channel) { return true }
    }
    return false
  }

  /// Whether events are compared with patterns when they are delivered, even if that is short work.
  var matchesLater = false

  /// What comparing an event with patterns may cost, as `Glob.cost` counts, while it happens.
  private static let mostMatching = 2_048

  private mutating func mustMatchLater(_ key: Span<UInt8>) -> Bool {
    matchesLater || patterns.cost(key.count + 16) > Self.mostMatching
  }

  /// Returns whether an entity's events have subscribers; true if finding out would take long.
  mutating func isWatched(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool {
    if !direct(kind, key).isEmpty { return true }
    guard !patterns.isEmpty else { return false }
    guard !mustMatchLater(key) else { return true }
    return kind.withChannel(key) { patterns.matchesAny($0) }
  }

  /// Returns the subscribers of an entity's events; nil if there are none.
  mutating func audience(_ kind: EntityKind, _ key: Span<UInt8>) -> Audience? {
    let direct = direct(kind, key)
    guard !patterns.isEmpty else {
      return direct.isEmpty ? nil : Audience(subscribers: direct)
    }
    guard !mustMatchLater(key) else { return .later }
    return kind.withChannel(key) { patterns.audience($0, direct: direct) }
  }

  mutating func beginMatching() -> PatternTable.Matching { patterns.beginMatching() }

  /// Continues looking for the audience of an event. Returns nil if the budget ran out first.
  func audience(
    _ matching: inout PatternTable.Matching, _ kind: EntityKind, _ key: Span<UInt8>,
    budget: inout Int
  ) -> Audience? {
    guard kind.withChannel(key, { matching.advance($0, budget: &budget) }) else { return nil }
    return patterns.audience(matching, direct: direct(kind, key))
  }

  /// Returns what comparing a long channel with the patterns of a connection costs.
  func matchingCost(of connection: UInt64) -> Int {
    ofConnection[connection]?.patterns.reduce(0) { $0 + Glob.cost($1, 512) } ?? 0
  }

  /// Returns the subscribers of the channel itself.
  private func direct(_ kind: EntityKind, _ key: Span<UInt8>) -> [UInt64] {
    // Most often there are none, and no key has to be made and hashed.
    guard !channels[Int(kind.rawValue)].isEmpty else { return [] }
    return channels[Int(kind.rawValue)][Array(key)] ?? []
  }

  /// Whether an entity's channel itself has subscribers.
  func hasSubscribers(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool { !direct(kind, key).isEmpty }

  /// The entities of some kinds whose channels have subscribers.
  func channels(of kinds: KindSet) -> [(EntityKind, key: [UInt8])] {
    EntityKind.allCases.filter(kinds.contains).flatMap { kind in
      channels[Int(kind.rawValue)].keys.map { (kind, $0) }
    }
  }

  func subscriberCount(of channel: [UInt8]) -> Int {
    guard let (kind, key) = Self.parse(channel) else { return otherChannels[channel]?.count ?? 0 }
    return channels[Int(kind.rawValue)][key]?.count ?? 0
  }

  /// Returns whether a connection is the first subscriber of a channel: exactly one of them is.
  func isFirst(_ connection: UInt64, of channel: [UInt8]) -> Bool {
    guard let (kind, key) = Self.parse(channel) else {
      return otherChannels[channel]?.first == connection
    }
    return channels[Int(kind.rawValue)][key]?.first == connection
  }

  /// Returns the kind and key that a channel is about; nil if it is about no entity.
  static func parse(_ channel: [UInt8]) -> (EntityKind, key: [UInt8])? {
    for kind in EntityKind.allCases where channel.starts(with: kind.channelPrefix) {
      let key = Array(channel.dropFirst(kind.channelPrefix.count))
      return key.isEmpty ? nil : (kind, key)
    }
    return nil
  }
}
