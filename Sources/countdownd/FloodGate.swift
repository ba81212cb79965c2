/// Keeps a message that comes over and over from filling the log: so many of a kind get through in
/// a while, the others are counted, and the count is logged when the while is over.
struct FloodGate<Kind: Hashable> {
  /// So many of a kind are let through…
  let most: Int
  /// …in so many microseconds from the first of them.
  let interval: Int64

  private struct Window {
    var end: Int64
    var count = 0
  }
  private var windows: [Kind: Window] = [:]

  init(most: Int, interval: Int64) {
    self.most = most
    self.interval = interval
  }

  enum Verdict: Equatable {
    case pass
    /// The first that is held back: `close` is to be called at this moment.
    case holdUntil(Int64)
    case hold
  }

  /// `now` is in microseconds and never runs back.
  mutating func admit(_ kind: Kind, at now: Int64) -> Verdict {
    if windows[kind] == nil {
      // Kinds are places in the sources, so they are few; those of long ago are not kept anyway.
      windows = windows.filter { $0.value.end > now || $0.value.count > most }
    }
    var window = windows[kind] ?? Window(end: now + interval)
    if window.end <= now, window.count <= most { window = Window(end: now + interval) }
    window.count += 1
    windows[kind] = window
    if window.count <= most { return .pass }
    return window.count == most + 1 ? .holdUntil(window.end) : .hold
  }

  /// How many were held back, which are forgotten by it.
  mutating func close(_ kind: Kind) -> Int {
    let window = windows.removeValue(forKey: kind)
    return max((window?.count ?? 0) - most, 0)
  }
}
