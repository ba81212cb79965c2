/// The readers of one channel, and which of them wait for a snapshot.
///
/// The daemon answers each `SUBSCRIBE` with a snapshot. It is for those who joined before it; the
/// others know everything in it. Readers who join while an answer is on its way share it. So
/// opening many streams of a channel costs time linear in their number.
struct Watchers<Reader: Hashable> {
  private(set) var readers: Set<Reader> = []
  /// Those who receive the next snapshot.
  private var waiting: Set<Reader> = []
  /// Those who receive the rest of the current snapshot: a HUD has one for each of its levels.
  private var receiving: Set<Reader> = []
  private var levels: Set<String> = []
  /// Whether a snapshot is on its way for those who wait.
  private var isAsked = false
  /// The number of snapshots on their way from before the channel was left.
  private var left = 0

  /// Whether nobody reads the channel, and nothing of an earlier subscription is on its way.
  var isIdle: Bool { readers.isEmpty && left == 0 }

  /// Adds a reader. Returns whether to ask the daemon for a snapshot.
  mutating func join(_ reader: Reader) -> Bool {
    readers.insert(reader)
    waiting.insert(reader)
    defer { isAsked = true }
    return !isAsked
  }

  /// Removes a reader. Returns whether it was the last one.
  mutating func leave(_ reader: Reader) -> Bool {
    guard readers.remove(reader) != nil else { return false }
    // The daemon may have refused to answer: the next reader asks again.
    if waiting.remove(reader) != nil, waiting.isEmpty, !readers.isEmpty { isAsked = false }
    receiving.remove(reader)
    guard readers.isEmpty else { return false }
    if isAsked { left += 1 }
    isAsked = false
    return true
  }

  /// The connection to the daemon is lost: the next one brings everybody a snapshot.
  mutating func disconnect() {
    waiting = readers
    receiving = []
    levels = []
    isAsked = !readers.isEmpty
    left = 0
  }

  /// Returns the readers of an event that is no snapshot.
  mutating func readersOfEvent() -> Set<Reader> {
    receiving = []
    levels = []
    return readers
  }

  /// Returns the readers of a snapshot.
  mutating func readersOfSnapshot(level: String) -> Set<Reader> {
    // The snapshots of the levels follow each other, so a level that repeats begins the next one.
    if levels.isEmpty || !levels.insert(level).inserted {
      levels = [level]
      if left > 0 {
        // It may be older than what those who wait need, but hurts nobody.
        left -= 1
        receiving = readers
      } else if isAsked {
        receiving = waiting
        waiting = []
        isAsked = false
      } else {
        // Nobody has asked: a fleet has taken over the entity, and what readers know may be wrong.
        receiving = readers
      }
    }
    return receiving
  }
}
