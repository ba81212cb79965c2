import CountdownClient

/// The lines of `watch`, one for each entity, from the events alone.
///
/// Times are durations since the start of `watch`. The time left comes from the deadline and the
/// daemon's clock in the last event, so ticks are not needed for it.
struct Board {
  /// How long a line stays after its end, and the maximum number of such lines.
  static let linger = Duration.seconds(5)
  static let maximumEnded = 5

  struct Line: Equatable {
    enum Phase: Equatable {
      /// Ends at this time.
      case running(end: Duration)
      /// Is frozen with this time left; nil if no end is known.
      case still(left: Duration?)
      /// Has ended, and disappears at this time.
      case over(until: Duration)
    }

    let kind: CountdownEvent.Kind
    let channel: String
    let key: String
    var generation: Int?
    /// The state, or the word for the end.
    var state = ""
    var phase = Phase.still(left: nil)
    /// The whole duration, for the bar; nil if there is none.
    var total: Duration?
    /// Whether the entity is a periodic timer.
    var isPeriodic = false
    /// The progress, from 0 to 1, if the daemon sends it.
    var fraction: Double?
    var title: String?

    var isOver: Bool { if case .over = phase { true } else { false } }

    func left(at now: Duration) -> Duration? {
      switch phase {
      case .running(let end): max(.zero, end - now)
      case .still(let left): left
      case .over: nil
      }
    }

    fileprivate func matches(_ filter: String) -> Bool {
      filter.isEmpty
        || [kind.rawValue, key, state, title ?? ""].contains { $0.lowercased().contains(filter) }
    }
  }

  /// Lines by id: the channel, with the level of a HUD.
  private(set) var lines: [String: Line] = [:]
  /// The number of entities of each kind that have not ended.
  private(set) var counts: [CountdownEvent.Kind: Int] = [:]
  /// The ids of lines that have ended, oldest first.
  private var ended: [String] = []
  var isConnected = true

  /// The lines that match the filter: those that have ended, then the soonest first.
  private(set) var order: [Place] = []
  /// The ids of lines that have changed since `sort`, with their places before; nil for new lines.
  private var moved: [String: Place?] = [:]

  /// The filter, in lower case: `order` has only lines that contain it.
  private(set) var filter = ""

  // MARK: Lines

  mutating func put(_ id: String, _ line: Line) {
    let old = lines.updateValue(line, forKey: id)
    remember(id, old)
    if let old, !old.isOver { counts[old.kind, default: 0] -= 1 }
    if !line.isOver { counts[line.kind, default: 0] += 1 }
  }

  /// Ends the line of an entity. It stays for a while, with a word in place of the state.
  mutating func end(_ id: String, _ word: String, at now: Duration, title: String? = nil) {
    guard var line = lines[id], !line.isOver else { return }
    line.state = word
    line.phase = .over(until: now + Self.linger)
    if let title { line.title = title }
    put(id, line)
    ended.removeAll { $0 == id }
    ended.append(id)
    if ended.count > Self.maximumEnded { remove(ended.removeFirst(), ifOver: true) }
  }

  mutating func remove(_ id: String, ifOver: Bool = false) {
    guard let line = lines[id], line.isOver || !ifOver else { return }
    lines[id] = nil
    remember(id, line)
    if !line.isOver { counts[line.kind, default: 0] -= 1 }
  }

  mutating func removeAll() {
    self = Board(filter: filter)
  }

  /// Removes the lines that have stayed long enough after their end.
  mutating func expire(at now: Duration) {
    let gone = ended.filter { id in
      if case .over(let until)? = lines[id]?.phase { until <= now } else { true }
    }
    for id in gone { remove(id, ifOver: true) }
    ended.removeAll { gone.contains($0) }
  }

  // MARK: Order

  /// The place of a line in the order.
  struct Place: Comparable {
    /// 0: has ended; 1: runs; 2: is frozen; 3: is frozen without a known end.
    let group: Int
    let time: Duration
    let id: String

    init(_ id: String, _ line: Line) {
      self.id = id
      switch line.phase {
      case .over(let until): (group, time) = (0, until)
      case .running(let end): (group, time) = (1, end)
      case .still(let left?): (group, time) = (2, left)
      case .still(nil): (group, time) = (3, .zero)
      }
    }

    static func < (one: Place, other: Place) -> Bool {
      if one.group != other.group { return one.group < other.group }
      if one.time != other.time { return one.time < other.time }
      return one.id < other.id
    }
  }

  init(filter: String = "") { self.filter = filter.lowercased() }

  mutating func filter(by text: String) {
    filter = text.lowercased()
    sortAll()
  }

  /// Updates the order. O(changes · log changes + lines), without comparing for no change.
  mutating func sort() {
    guard !moved.isEmpty else { return }
    let new = moved.keys.compactMap { id in
      lines[id].flatMap { $0.matches(filter) ? Place(id, $0) : nil }
    }
    order = order.replacing(moved.values.compactMap(\.self).sorted(), with: new.sorted())
    moved = [:]
  }

  private mutating func sortAll() {
    moved = [:]
    order = lines.compactMap { $1.matches(filter) ? Place($0, $1) : nil }.sorted()
  }

  private mutating func remember(_ id: String, _ old: Line?) {
    if moved.index(forKey: id) == nil { moved[id] = .some(old.map { Place(id, $0) }) }
  }
}

extension Array where Element: Comparable {
  /// Returns the elements of a sorted array without `old`, and with `new`; both are sorted.
  /// Elements of `old` that the array does not have are ignored. O(all three).
  func replacing(_ old: [Element], with new: [Element]) -> [Element] {
    var result: [Element] = []
    result.reserveCapacity(count + new.count)
    var (old, new) = (old[...], new[...])
    for element in self {
      while let first = old.first, first < element { old.removeFirst() }
      if old.first == element { continue }
      while let first = new.first, first < element { result.append(new.removeFirst()) }
      result.append(element)
    }
    return result + new
  }
}
