/// Ticks for a client that does not read as fast as they come: the newest of each channel.
struct WaitingTicks {
  private struct Tick {
    var sequence: Int64
    var frame: [UInt8]
  }

  /// By channel, and there by the pattern it came by; empty for the channel itself.
  private var ticks: [[UInt8]: [[UInt8]: Tick]] = [:]
  var isEmpty: Bool { ticks.isEmpty }
  /// What they take, in bytes.
  private(set) var bytes = 0

  /// Returns whether an older tick gave way.
  mutating func put(
    _ frame: [UInt8], sequence: Int64, channel: [UInt8], pattern: [UInt8]
  ) -> Bool {
    let tick = Tick(sequence: sequence, frame: frame)
    let old = ticks[channel, default: [:]].updateValue(tick, forKey: pattern)
    bytes += frame.count - (old?.frame.count ?? 0)
    return old != nil
  }

  /// Something has happened since that makes a channel's tick wrong. Returns how many were dropped.
  mutating func drop(_ channel: [UInt8]) -> Int {
    guard let dropped = ticks.removeValue(forKey: channel) else { return 0 }
    bytes -= dropped.values.reduce(0) { $0 + $1.frame.count }
    return dropped.count
  }

  /// All of them, in the order in which they came.
  mutating func takeAll() -> [[UInt8]] {
    defer { self = WaitingTicks() }
    return ticks.values.flatMap(\.values).sorted { $0.sequence < $1.sequence }.map(\.frame)
  }
}
