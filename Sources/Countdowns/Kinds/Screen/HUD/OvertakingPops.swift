/// The HUDs, and the POPs that came before their SHOW.
final class HUDStore: TableStore {
  typealias State = HUDEntity

  let table = EntityTable<HUDEntity>()
  var overtaking = OvertakingPops()
}

/// The requests whose POP came before their SHOW, which another connection sent: the SHOW that
/// follows shows nothing.
///
/// A request that had a hold a moment ago is no such case: its POP was repeated, or came after MAX.
struct OvertakingPops {
  /// The most requests that are remembered for a user.
  static let maximumOfUser = 64
  /// The most users, and the most requests that had a hold.
  static let maximum = 4_096

  private var pops: [UInt32: Recent<Pop>] = [:]
  private var releases = Recent<UInt64>()

  private struct Pop: Hashable {
    let request: UInt64
    /// The level that was given; nil for any.
    let level: Level?
  }

  /// Notes that the last hold of a request was released on one level.
  mutating func noteRelease(_ screen: [UInt8], _ path: [UInt8], until: Instant, at now: Instant) {
    releases.remember(Self.hash(screen, path), until: until, atMost: Self.maximum, at: now)
  }

  /// Remembers a POP without a hold, unless its request had one a moment ago.
  mutating func notePop(
    _ screen: [UInt8], _ path: [UInt8], _ level: Level?, by uid: UInt32, until: Instant,
    at now: Instant
  ) {
    let request = Self.hash(screen, path)
    guard !releases.contains(request, at: now) else { return }
    if pops.count >= Self.maximum { pops = pops.filter { $0.value.hasAny(at: now) } }
    guard pops[uid] != nil || pops.count < Self.maximum else { return }
    pops[uid, default: Recent()].remember(
      Pop(request: request, level: level), until: until, atMost: Self.maximumOfUser, at: now)
  }

  /// Returns whether a POP has overtaken this SHOW, and forgets that POP.
  mutating func take(
    _ screen: [UInt8], _ path: [UInt8], _ level: Level, by uid: UInt32, at now: Instant
  ) -> Bool {
    guard pops[uid] != nil else { return false }
    let request = Self.hash(screen, path)
    return [level, nil].contains { level in
      pops[uid]!.forget(Pop(request: request, level: level), at: now)
    }
  }

  /// Returns 64 bits that stand for a request on a screen, in this run of the program.
  private static func hash(_ screen: [UInt8], _ path: [UInt8]) -> UInt64 {
    // With the length of the screen, other requests never have the same bytes.
    SipHash.ofProcess((Array("\(screen.count):".utf8) + screen + path).span)
  }
}

/// Values that are remembered, each until a moment.
private struct Recent<Value: Hashable> {
  private var ends: [Value: Instant] = [:]

  func contains(_ value: Value, at now: Instant) -> Bool { ends[value].map { $0 > now } ?? false }
  func hasAny(at now: Instant) -> Bool { ends.values.contains { $0 > now } }

  /// Remembers a value, perhaps for longer than before. If there are too many, those that are over
  /// make room, or else the half that is over first.
  mutating func remember(
    _ value: Value, until end: Instant, atMost maximum: Int, at now: Instant
  ) {
    if ends.count >= maximum { ends = ends.filter { $0.value > now } }
    if ends.count >= maximum {
      let half = ends.sorted { $0.value < $1.value }.suffix(maximum / 2)
      ends = Dictionary(uniqueKeysWithValues: half.map { ($0.key, $0.value) })
    }
    ends[value] = end
  }

  /// Returns whether the value was remembered.
  mutating func forget(_ value: Value, at now: Instant) -> Bool {
    ends.removeValue(forKey: value).map { $0 > now } ?? false
  }
}
