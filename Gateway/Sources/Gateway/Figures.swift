import Synchronization

/// What the gateway counts about itself, as Prometheus text.
final class Figures: Sendable {
  private struct State {
    var opened = 0
    var messages = 0
    var bytes = 0
    /// By status. Those of the alerts are there from the start: Prometheus sees no rise in a series
    /// that begins above 0.
    var refusals = [401: 0, 429: 0, 503: 0]
    var deliveries = Array(repeating: 0, count: Figures.limits.count + 1)
    var seconds = 0.0
  }

  /// The upper limits of the buckets of delivery times, in seconds.
  private static let limits = [0.001, 0.01, 0.1, 1]
  private let state = Mutex(State())

  func hasOpened() { state.withLock { $0.opened += 1 } }

  func hasRefused(with status: Int) { state.withLock { $0.refusals[status, default: 0] += 1 } }

  /// Counts an event that was written to some streams.
  func hasDelivered(_ streams: Int, bytes: Int, in time: Duration) {
    let seconds = time / .seconds(1)
    let bucket = Self.limits.firstIndex { seconds <= $0 } ?? Self.limits.count
    state.withLock { state in
      state.messages += streams
      state.bytes += bytes
      state.deliveries[bucket] += 1
      state.seconds += seconds
    }
  }

  func text(streams: Int) -> String {
    let state = state.withLock { $0 }
    var text = ""
    func family(_ name: String, _ type: String, _ help: String, _ samples: [(String, String)]) {
      text += "# HELP countdown_gateway_\(name) \(help)\n# TYPE countdown_gateway_\(name) \(type)\n"
      for (suffix, value) in samples { text += "countdown_gateway_\(name)\(suffix) \(value)\n" }
    }
    family("streams", "gauge", "Open streams.", [("", "\(streams)")])
    family(
      "streams_opened_total", "counter", "Streams since the start.", [("", "\(state.opened)")])
    family(
      "messages_total", "counter", "Events written to streams.", [("", "\(state.messages)")])
    family(
      "message_bytes_total", "counter", "Bytes of events written to streams.",
      [("", "\(state.bytes)")])
    family(
      "refusals_total", "counter", "Refused requests by status.",
      state.refusals.sorted { $0.key < $1.key }.map { ("{status=\"\($0.key)\"}", "\($0.value)") })
    var count = 0
    var samples: [(String, String)] = []
    for (index, limit) in (Self.limits.map { "\($0)" } + ["+Inf"]).enumerated() {
      count += state.deliveries[index]
      samples.append(("_bucket{le=\"\(limit)\"}", "\(count)"))
    }
    samples += [("_sum", "\(state.seconds)"), ("_count", "\(count)")]
    family(
      "delivery_seconds", "histogram",
      "Time from reading an event from the daemon until it is written to the last stream.", samples)
    return text
  }
}
