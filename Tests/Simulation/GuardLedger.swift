import Countdowns

/// The entries of a guard model, in the order of their deadlines.
///
/// Of equal deadlines, the one that was armed first comes first. Entries without one are last.
struct GuardLedger<State> {
  struct Entry {
    let key: Int
    var generation: Generation
    var owner: Owner
    /// The deadline in microseconds of the boot clock; nil if there is none.
    var deadline: Int64?
    var state: State
  }

  private(set) var entries: [Entry] = []

  subscript(key: Int) -> Entry? { entries.first { $0.key == key } }

  mutating func remove(_ key: Int) { entries.removeAll { $0.key == key } }

  /// Replaces the entry of a key. An entry that keeps its deadline keeps its place.
  mutating func put(_ entry: Entry) {
    if let index = entries.firstIndex(where: { $0.key == entry.key }) {
      if entries[index].deadline == entry.deadline {
        entries[index] = entry
        return
      }
      entries.remove(at: index)
    }
    let moment = entry.deadline ?? .max
    let index = entries.firstIndex { ($0.deadline ?? .max) > moment } ?? entries.count
    entries.insert(entry, at: index)
  }

  func check(_ wanted: Generation?, _ entry: Entry) throws(EngineError) {
    if let wanted, wanted != entry.generation { throw .stale(now: entry.generation) }
  }

  func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    self[key]?.deadline.map { (.boot, $0) }
  }

  /// Returns the time until a deadline and its Unix time, both in milliseconds.
  static func left(_ deadline: Int64, _ world: World) -> (ms: Int64, unixMS: Int64) {
    ((deadline - world.now.boot.microseconds).roundedUp, world.now.deadlineUnixMS(deadline))
  }
}
