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
  /// The bytes of those in `list` that may take long to compare.
  private var slowLength = 0

  fileprivate final class Entry {
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
    Subscriptions.remove(connection, from: &subscribers[pattern])
  }

  /// Returns what comparing a text with all patterns costs at most, as `Glob.cost` counts.
  mutating func cost(_ textLength: Int) -> Int {
    makeList()
    return count + slowLength * textLength / 4_096
  }

  /// The comparison of one channel with the patterns of a moment, a few at a time.
  struct Matching {
    fileprivate let list: [Entry]
    fileprivate var next = 0
    fileprivate var found: [Entry] = []

    /// Compares until the budget is used up. Returns whether the comparison is complete.
    mutating func advance(_ channel: Span<UInt8>, budget: inout Int) -> Bool {
      while next < list.count, budget > 0 {
        let entry = list[next]
        next += 1
        budget -= entry.start == nil ? Glob.cost(entry.pattern, channel.count) : 1
        if entry.matches(channel) { found.append(entry) }
      }
      return next == list.count
    }
  }

  mutating func beginMatching() -> Matching {
    makeList()
    return Matching(list: list)
  }

  /// Returns the audience that a complete comparison has found, without who has left since.
  func audience(_ matching: Matching, direct: [UInt64]) -> Audience {
    Audience(
      subscribers: direct,
      patterns: matching.found.compactMap { entry in
        subscribers[entry.pattern].map { (entry.pattern, $0) }
      })
  }

  private mutating func forgetList() {
    isListed = false
    list = []
    lastAudience = nil
  }

  private mutating func makeList() {
    guard !isListed else { return }
    isListed = true
    list = subscribers.map { Entry($0.key, $0.value) }
    slowLength = list.reduce(0) { $0 + ($1.start == nil ? $1.pattern.count : 0) }
  }

  mutating func matchesAny(_ channel: Span<UInt8>) -> Bool {
    makeList()
    return list.contains { $0.matches(channel) }
  }

  /// Returns a channel's subscribers by pattern, and `direct`; nil if there are none. O(patterns).
  mutating func audience(_ channel: Span<UInt8>, direct: [UInt64]) -> Audience? {
    makeList()
    matching.removeAll(keepingCapacity: true)
    for index in list.indices where list[index].matches(channel) {
      matching.append(index)
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
