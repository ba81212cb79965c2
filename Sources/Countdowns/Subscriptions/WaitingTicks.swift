/// The newest tick of each channel, for a client that reads too slowly.
struct WaitingTicks {
  private struct Tick {
    var sequence: Int64
    var frame: [UInt8]
  }

  /// Ticks by channel, then by the pattern subscribed to; empty for the channel itself.
  private var ticks: [[UInt8]: [[UInt8]: Tick]] = [:]
  var isEmpty: Bool { ticks.isEmpty }
  /// The bytes of all frames.
  private(set) var bytes = 0

  /// Adds a tick. Returns whether it replaced an older one.
  mutating func put(
    _ frame: [UInt8], sequence: Int64, channel: [UInt8], pattern: [UInt8]
  ) -> Bool {
    let tick = Tick(sequence: sequence, frame: frame)
    let old = ticks[channel, default: [:]].updateValue(tick, forKey: pattern)
    bytes += frame.count - (old?.frame.count ?? 0)
    return old != nil
  }

  /// Drops the ticks of a channel that an event has made wrong. Returns how many there were.
  mutating func drop(_ channel: [UInt8]) -> Int {
    guard let dropped = ticks.removeValue(forKey: channel) else { return 0 }
    bytes -= dropped.values.reduce(0) { $0 + $1.frame.count }
    return dropped.count
  }

  /// Takes all ticks, in the order in which they came.
  mutating func takeAll() -> [[UInt8]] {
    defer { self = WaitingTicks() }
    return ticks.values.flatMap(\.values).sorted { $0.sequence < $1.sequence }.map(\.frame)
  }
}
