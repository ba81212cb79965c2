/// Keeps a repeated message from filling the log. It lets the first messages of a kind pass, counts
/// the others until the interval is over, and then has the count logged.
///
/// A kind is a message and whom it is about, so that nobody hides others. Beyond `maximumKinds`,
/// those who are new share one kind for each message.
struct FloodGate<Message: Hashable & Sendable, User: Hashable & Sendable> {
  struct Kind: Hashable, Sendable {
    var message: Message
    /// Nil for all others.
    var user: User?
  }

  /// How many kinds with a user are counted at the same time.
  let maximumKinds: Int
  /// How many messages of a kind pass in an interval.
  let maximum: Int
  /// The length of an interval from its first message on, in microseconds.
  let interval: Int64

  private struct Window {
    var end: Int64
    var count = 0
  }
  private var windows: [Kind: Window] = [:]

  init(maximum: Int, interval: Int64, maximumKinds: Int) {
    self.maximumKinds = maximumKinds
    self.maximum = maximum
    self.interval = interval
  }

  enum Verdict: Equatable {
    case pass
    /// The first message held back in an interval: call `close` with the kind at this moment, in
    /// microseconds.
    case holdUntil(Int64, Kind)
    case hold
  }

  /// Decides about a message. `now` is in microseconds and never runs backwards.
  mutating func admit(_ message: Message, of user: User, at now: Int64) -> Verdict {
    var kind = Kind(message: message, user: user)
    if windows[kind] == nil {
      windows = windows.filter { $0.value.end > now || $0.value.count > maximum }
      if windows.count >= maximumKinds { kind.user = nil }
    }
    var window = windows[kind] ?? Window(end: now + interval)
    if window.end <= now, window.count <= maximum { window = Window(end: now + interval) }
    window.count += 1
    windows[kind] = window
    if window.count <= maximum { return .pass }
    return window.count == maximum + 1 ? .holdUntil(window.end, kind) : .hold
  }

  /// Ends the interval, and returns how many messages were held back.
  mutating func close(_ kind: Kind) -> Int {
    let window = windows.removeValue(forKey: kind)
    return max((window?.count ?? 0) - maximum, 0)
  }
}
