import DequeModule

/// The new patterns of a connection. It receives snapshots of all entities that match them, one
/// pattern after the other, bit by bit. All O(1): there may be as many patterns as subscriptions.
struct SnapshotWalks {
  struct Walk {
    let pattern: [UInt8]
    var kind = EntityKind.allCases[0]
    var index = 0
  }

  private(set) var current: Walk?
  /// Patterns in the order of subscription; those no longer in `waiting` are passed over.
  private var queue: Deque<[UInt8]> = []
  private var waiting: Set<[UInt8]> = []

  /// Adds a pattern; starts it from the beginning if it is under way.
  mutating func begin(_ pattern: [UInt8]) {
    if current?.pattern == pattern { current = nil }
    if waiting.insert(pattern).inserted { queue.append(pattern) }
  }

  mutating func end(_ pattern: [UInt8]) {
    if current?.pattern == pattern { current = nil }
    waiting.remove(pattern)
  }

  var isFinished: Bool { current == nil && waiting.isEmpty }

  /// Returns where to look next; nil when all snapshots were sent.
  ///
  /// - Parameter ends: the end of the indices of each kind.
  mutating func step(_ ends: [Int]) -> Step? {
    if var walk = current {
      if walk.index < ends[Int(walk.kind.rawValue)] {
        defer { current!.index += 1 }
        return .look(walk)
      }
      if let next = EntityKind(rawValue: walk.kind.rawValue + 1) {
        walk.kind = next
        walk.index = 0
        current = walk
      } else {
        current = nil
      }
      return .passOver
    }
    guard let next = queue.popFirst() else { return nil }
    if waiting.remove(next) != nil { current = Walk(pattern: next) }
    return .passOver
  }

  enum Step {
    case look(Walk)
    case passOver
  }
}

extension Engine {
  // MARK: Channels

  /// Refuses more channels and patterns than a connection may have, before any of them is
  /// subscribed: a command subscribes to all or to none.
  package func checkLimits(
    _ client: Client, channels: [[UInt8]] = [], patterns: [[UInt8]] = []
  ) throws(EngineError) {
    let limits = settings.limits
    let own = subscriptions.own(client.connection)
    let newChannels = Set(channels).count { own?.channels.contains($0) != true }
    let newPatterns = Set(patterns).count { own?.patterns.contains($0) != true }
    let new = newChannels + newPatterns
    guard new == 0 || (own?.count ?? 0) + new <= limits.subscriptions else {
      throw .limit(name: "max-subscriptions", value: limits.subscriptions)
    }
    // Each event of any user is compared with each pattern.
    let ofUser = subscriptions.patternCount(of: client.uid)
    guard newPatterns == 0 || ofUser + newPatterns <= limits.patternsPerUser else {
      throw .limit(name: "max-patterns-per-uid", value: limits.patternsPerUser)
    }
  }

  /// Subscribes a connection to a channel, after what is due for the channel: a new subscriber
  /// receives the state first, then events. Returns its number of channels and patterns afterwards.
  package func subscribe(
    _ client: Client, to channel: [UInt8], at now: Moment
  ) -> Int {
    if let (kind, key) = Subscriptions.parse(channel), let index = find(kind, key) {
      _ = runDue(EntityRef(kind, index), at: now)
    }
    _ = subscriptions.subscribe(client, to: channel)
    return subscriptionCount(of: client.connection)
  }

  package func subscribe(_ client: Client, toPattern pattern: [UInt8]) -> Int {
    _ = subscriptions.subscribe(client, toPattern: pattern)
    snapshotWalks[client.connection, default: SnapshotWalks()].begin(pattern)
    return subscriptionCount(of: client.connection)
  }

  package func unsubscribe(_ connection: UInt64, from channel: [UInt8]) -> Int {
    subscriptions.unsubscribe(connection, from: channel)
    return subscriptionCount(of: connection)
  }

  package func unsubscribe(_ connection: UInt64, fromPattern pattern: [UInt8]) -> Int {
    subscriptions.unsubscribe(connection, fromPattern: pattern)
    snapshotWalks[connection]?.end(pattern)
    if snapshotWalks[connection]?.isFinished == true { snapshotWalks[connection] = nil }
    return subscriptionCount(of: connection)
  }

  /// The channels and patterns that a connection is subscribed to. O(1).
  func channels(of connection: UInt64) -> NameSet {
    subscriptions.own(connection)?.channels ?? NameSet()
  }
  package func patterns(of connection: UInt64) -> Set<[UInt8]> {
    subscriptions.own(connection)?.patterns ?? []
  }

  package func subscriptionCount(of connection: UInt64) -> Int {
    subscriptions.isAnythingWatched ? subscriptions.own(connection)?.count ?? 0 : 0
  }

  /// Returns whether a connection gets an entity's events. O(its patterns), taken from the budget.
  package func isSubscribed(
    _ connection: UInt64, to kind: EntityKind, _ key: [UInt8], budget: inout Int
  ) -> Bool {
    subscriptions.isSubscribed(connection, to: kind, key, budget: &budget)
  }

  /// Returns whether a connection is the first subscriber of a channel: exactly one of them is.
  package func isFirst(_ connection: UInt64, of channel: [UInt8]) -> Bool {
    subscriptions.isFirst(connection, of: channel)
  }

  package func subscriberCount(of channel: [UInt8]) -> Int {
    subscriptions.subscriberCount(of: channel)
  }

  package var patternCount: Int { subscriptions.patternCount }
  package var channelCount: Int { subscriptions.channelCount }

  // MARK: Snapshots

  /// Sends a snapshot to a new subscriber of a channel, before anything else happens to the entity.
  /// Sends nothing for a channel that can have no entity.
  package func snapshot(
    of channel: [UInt8], to connection: UInt64, at now: Moment
  ) {
    guard let (kind, key) = Subscriptions.parse(channel) else { return }
    if let index = find(kind, key), runDue(EntityRef(kind, index), at: now) {
      sendSnapshot(EntityRef(kind, index), to: connection, pattern: nil, at: now)
    } else {
      sendSnapshot(
        NothingView(kind: kind, key: key, nowUnixMS: now.unixMilliseconds),
        to: connection, pattern: nil)
    }
  }

  private func runDue(_ entity: EntityRef, at now: Moment) -> Bool {
    entity.kind.behavior.runDue(entity.index, in: self, at: now)
  }

  private func find(_ kind: EntityKind, _ key: [UInt8]) -> UInt32? {
    store(of: kind).find(key.span)
  }

  private func sendSnapshot(
    _ entity: EntityRef, to connection: UInt64, pattern: [UInt8]?, at now: Moment
  ) {
    func send<K: Kind>(_ kind: K.Type) {
      for view in K.snapshot(entity.index, in: self, at: now) {
        sendSnapshot(view, to: connection, pattern: pattern)
      }
    }
    send(entity.kind.behavior)
  }

  /// Connections with new patterns whose snapshots are not complete.
  package var connectionsAwaitingSnapshots: [UInt64] { Array(snapshotWalks.keys) }
  package var isAnySnapshotAwaited: Bool { !snapshotWalks.isEmpty }
  package func isSnapshotAwaited(by connection: UInt64) -> Bool {
    snapshotWalks[connection] != nil
  }

  /// Sends a connection more snapshots of what matches its new patterns. O(budget).
  package func continueSnapshots(to connection: UInt64, budget: Int, at now: Moment) {
    // Taken out of the dictionary, where each step would copy it.
    guard var walks = snapshotWalks.removeValue(forKey: connection) else { return }
    let ends = EntityKind.allCases.map { store(of: $0).indexEnd }
    for _ in 0..<budget {
      guard let step = walks.step(ends) else { return }
      guard case .look(let walk) = step else { continue }
      let entity = EntityRef(walk.kind, UInt32(walk.index))
      guard let key = walk.kind.behavior.entry(at: entity.index, in: self, now: now)?.key,
        Glob.matches(walk.pattern, walk.kind.channelPrefix + key), runDue(entity, at: now)
      else { continue }
      sendSnapshot(entity, to: connection, pattern: walk.pattern, at: now)
    }
    snapshotWalks[connection] = walks
  }
}
