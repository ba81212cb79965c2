import Wire

/// The subscribers of patterns.
///
/// The channel of each event is compared with all patterns. Most often the same ones match as for
/// the event before, so its audience is kept and used again.
struct PatternTable: ~Copyable {
  private var subscribers: [[UInt8]: [UInt64]] = [:]
  /// The same as a list, made when it is needed after a change.
  private var list: [Entry] = []
  private var isListed = true

  private final class Entry {
    let pattern: [UInt8]
    let subscribers: [UInt64]
    /// If the pattern is literal bytes and a final star, as most are: the bytes, with which a
    /// matching channel begins. Nil for others.
    let start: ArraySlice<UInt8>?

    init(_ pattern: [UInt8], _ subscribers: [UInt64]) {
      self.pattern = pattern
      self.subscribers = subscribers
      let start = pattern.dropLast()
      let isStart = pattern.last == UInt8(ascii: "*") && !start.contains(where: Glob.isSpecial)
      self.start = isStart ? start : nil
    }

    func matches(_ channel: Span<UInt8>) -> Bool {
      guard let start else { return Glob.matches(pattern, channel) }
      guard start.count <= channel.count else { return false }
      return channel.extracting(first: start.count).hasSameBytes(as: start.span)
    }

    var asListed: (pattern: [UInt8], subscribers: [UInt64]) { (pattern, subscribers) }
  }

  /// Places in `list` of the patterns that match now, and of those that matched last.
  private var matching: [Int] = []
  private var lastMatching: [Int] = []
  private var lastAudience: Audience?

  var count: Int { subscribers.count }
  var isEmpty: Bool { subscribers.isEmpty }

  mutating func add(_ connection: UInt64, to pattern: [UInt8]) {
    forgetList()
    subscribers[pattern, default: []].append(connection)
  }

  mutating func remove(_ connection: UInt64, from pattern: [UInt8]) {
    forgetList()
    Subscriptions.remove(connection, from: pattern, in: &subscribers)
  }

  private mutating func forgetList() {
    isListed = false
    list = []
    lastAudience = nil
  }

  private mutating func makeList() {
    isListed = true
    list = subscribers.map { Entry($0.key, $0.value) }
  }

  func matchesAny(_ channel: Span<UInt8>) -> Bool {
    isListed
      ? list.contains { $0.matches(channel) }
      : subscribers.keys.contains { Glob.matches($0, channel) }
  }

  /// Returns a channel's subscribers by pattern, and `direct`; nil if there are none. O(patterns).
  mutating func audience(_ channel: Span<UInt8>, direct: [UInt64]) -> Audience? {
    if !isListed { makeList() }
    matching.removeAll(keepingCapacity: true)
    for place in list.indices where list[place].matches(channel) {
      matching.append(place)
    }
    guard direct.isEmpty else {
      return Audience(subscribers: direct, patterns: matching.map { list[$0].asListed })
    }
    guard !matching.isEmpty else { return nil }
    if let lastAudience, matching == lastMatching { return lastAudience }
    let audience = Audience(subscribers: [], patterns: matching.map { list[$0].asListed })
    swap(&matching, &lastMatching)
    lastAudience = audience
    return audience
  }
}
