/// The texts of a countdown's button. Shared by all countdowns that have the same.
final class Titles: Hashable {
  let counting: [UInt8]?
  let ready: [UInt8]?

  init(counting: [UInt8]?, ready: [UInt8]?) {
    self.counting = counting
    self.ready = ready
  }

  static func == (a: Titles, b: Titles) -> Bool { a.counting == b.counting && a.ready == b.ready }

  func hash(into hasher: inout Hasher) {
    hasher.combine(counting)
    hasher.combine(ready)
  }
}

/// Keeps one copy of texts that many countdowns share.
struct TitleCache {
  private static let most = 1_024
  private var known: Set<Titles> = []

  /// What START says, else what its policy says.
  mutating func titles(_ start: CountdownStart) -> Titles? {
    let rules = start.policy?.rules
    return titles(
      counting: start.title ?? rules?.title, ready: start.readyTitle ?? rules?.readyTitle)
  }

  mutating func titles(counting: [UInt8]?, ready: [UInt8]?) -> Titles? {
    if counting == nil && ready == nil { return nil }
    let titles = Titles(counting: counting, ready: ready)
    if let index = known.firstIndex(of: titles) { return known[index] }
    // Whoever uses them keeps them; the cache only spares copies.
    if known.count >= Self.most { known.removeAll() }
    known.insert(titles)
    return titles
  }
}
