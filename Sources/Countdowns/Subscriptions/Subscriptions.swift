/// The channels and patterns that connections are subscribed to.
struct Subscriptions: ~Copyable {
  /// The subscribers of each channel.
  private var channels = Shards<Channel, [UInt64]>()
  /// The number of channels with subscribers: of each kind, and of channels that no entity can ever
  /// have.
  private var counts = [Int](repeating: 0, count: EntityKind.allCases.count)
  private var otherCount = 0
  private var patterns = PatternTable()
  private var ofConnection = Shards<UInt64, Own>()
  /// The number of connections with subscriptions.
  private var connectionCount = 0
  private var departing: [Departing] = []
  /// The number of patterns in the tables, by the user of their connections.
  private var patternsOfUser: [UInt32: Int] = [:]

  /// A channel: of an entity, or with another name, which no entity can ever have.
  private struct Channel: ShardKey {
    private let hash: UInt64
    let kind: EntityKind?
    let key: [UInt8]

    init(_ kind: EntityKind?, _ key: [UInt8]) {
      (self.kind, self.key) = (kind, key)
      hash = SipHash.ofProcess(key.span)
    }

    init(_ name: [UInt8]) {
      if let (kind, key) = Subscriptions.parse(name) {
        self.init(kind, key)
      } else {
        self.init(nil, name)
      }
    }

    var shard: UInt8 { UInt8(truncatingIfNeeded: hash) }
    func hash(into hasher: inout Hasher) { hasher.combine(hash) }
  }

  /// The subscriptions that a closed connection still has in the tables.
  private struct Departing {
    let connection: UInt64
    let uid: UInt32
    var channels: NameSet.Iterator
    var patterns: Set<[UInt8]>.Iterator
  }

  /// The subscriptions of one connection.
  struct Own {
    let uid: UInt32
    var channels = NameSet()
    var patterns: Set<[UInt8]> = []
    var count: Int { channels.count + patterns.count }
  }

  var patternCount: Int { patterns.count }
  var channelCount: Int { counts.reduce(otherCount, +) }

  func own(_ connection: UInt64) -> Own? { ofConnection[connection] }

  /// Returns the number of patterns of all connections of a user. Patterns of a closed connection
  /// count until they are cleared up, as they cost as much until then.
  func patternCount(of uid: UInt32) -> Int { patternsOfUser[uid] ?? 0 }

  /// The most channels and patterns of a connection, and the most patterns of a user.
  var maximumOfConnection: Int {
    var maximum = 0
    ofConnection.visit { maximum = max(maximum, $1.count) }
    return maximum
  }
  var maximumPatternsOfUser: Int { patternsOfUser.values.max() ?? 0 }

  // MARK: Changing

  /// Subscribes a connection to a channel. Returns false if it was subscribed before.
  mutating func subscribe(_ client: Client, to channel: [UInt8]) -> Bool {
    let connection = client.connection
    begin(client)
    guard ofConnection[connection]!.channels.insert(channel) else { return false }
    let name = Channel(channel)
    if channels[name]?.append(connection) == nil {
      channels[name] = [connection]
      count(name, 1)
    }
    return true
  }

  mutating func subscribe(_ client: Client, toPattern pattern: [UInt8]) -> Bool {
    let connection = client.connection
    begin(client)
    guard ofConnection[connection]!.patterns.insert(pattern).inserted else { return false }
    patterns.add(connection, to: pattern)
    patternsOfUser[client.uid, default: 0] += 1
    return true
  }

  private mutating func begin(_ client: Client) {
    guard ofConnection[client.connection] == nil else { return }
    ofConnection[client.connection] = Own(uid: client.uid)
    connectionCount += 1
  }

  mutating func unsubscribe(_ connection: UInt64, from channel: [UInt8]) {
    guard ofConnection[connection]?.channels.remove(channel) == true else { return }
    withdraw(connection, from: channel)
    forgetIfEmpty(connection)
  }

  private mutating func withdraw(_ connection: UInt64, from channel: [UInt8]) {
    let name = Channel(channel)
    Self.remove(connection, from: &channels[name])
    if channels[name] == nil { count(name, -1) }
  }

  private mutating func count(_ channel: Channel, _ change: Int) {
    if let kind = channel.kind {
      counts[Int(kind.rawValue)] += change
    } else {
      otherCount += change
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
      connectionCount -= 1
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
    guard ofConnection[connection]?.count == 0 else { return }
    ofConnection[connection] = nil
    connectionCount -= 1
  }

  /// Removes a connection from a list of subscribers; nil once it is empty.
  static func remove(_ connection: UInt64, from subscribers: inout [UInt64]?) {
    guard let index = subscribers?.firstIndex(of: connection) else { return }
    subscribers!.swapAt(index, subscribers!.count - 1)
    subscribers!.removeLast()
    if subscribers!.isEmpty { subscribers = nil }
  }

  // MARK: Asking

  /// The subscriptions of all connections.
  var all: [(connection: UInt64, own: Own)] {
    var all: [(connection: UInt64, own: Own)] = []
    ofConnection.visit { all.append(($0, $1)) }
    return all
  }

  /// Whether there are any subscriptions at all.
  var isAnythingWatched: Bool { connectionCount > 0 || !departing.isEmpty }

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
  private static let maximumMatching = 2_048

  private mutating func mustMatchLater(_ key: Span<UInt8>) -> Bool {
    matchesLater || patterns.cost(key.count + 16) > Self.maximumMatching
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
    guard counts[Int(kind.rawValue)] > 0 else { return [] }
    return channels[Channel(kind, Array(key))] ?? []
  }

  /// Whether an entity's channel itself has subscribers.
  func hasSubscribers(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool { !direct(kind, key).isEmpty }

  /// The entities of some kinds whose channels have subscribers.
  func channels(of kinds: KindSet) -> [(EntityKind, key: [UInt8])] {
    var found: [(EntityKind, key: [UInt8])] = []
    channels.visit { channel, _ in
      if let kind = channel.kind, kinds.contains(kind) { found.append((kind, channel.key)) }
    }
    return found
  }

  func subscriberCount(of channel: [UInt8]) -> Int {
    channels[Channel(channel)]?.count ?? 0
  }

  /// Returns whether a connection is the first subscriber of a channel: exactly one of them is.
  func isFirst(_ connection: UInt64, of channel: [UInt8]) -> Bool {
    channels[Channel(channel)]?.first == connection
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
