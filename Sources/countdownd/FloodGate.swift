/// Keeps a repeated message from filling the log. It lets the first messages of a kind pass, counts
/// the others until the interval is over, and then has the count logged.
struct FloodGate<Kind: Hashable> {
  /// How many messages of a kind pass in an interval.
  let most: Int
  /// The length of an interval from its first message on, in microseconds.
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
    /// The first message held back in an interval: call `close` at this moment, in microseconds.
    case holdUntil(Int64)
    case hold
  }

  /// Decides about a message. `now` is in microseconds and never runs backwards.
  mutating func admit(_ kind: Kind, at now: Int64) -> Verdict {
    if windows[kind] == nil {
      // There are few kinds, as they are places in the sources; old ones are dropped anyway.
      windows = windows.filter { $0.value.end > now || $0.value.count > most }
    }
    var window = windows[kind] ?? Window(end: now + interval)
    if window.end <= now, window.count <= most { window = Window(end: now + interval) }
    window.count += 1
    windows[kind] = window
    if window.count <= most { return .pass }
    return window.count == most + 1 ? .holdUntil(window.end) : .hold
  }

  /// Ends the interval, and returns how many messages were held back.
  mutating func close(_ kind: Kind) -> Int {
    let window = windows.removeValue(forKey: kind)
    return max((window?.count ?? 0) - most, 0)
  }
}
