import Synchronization

/// A rate limit for each key: a bucket of tokens that refills steadily.
final class RateLimit: Sendable {
  private struct Bucket {
    var tokens: Double
    var time: ContinuousClock.Instant
  }

  private struct State {
    var buckets: [String: Bucket] = [:]
    /// The number of keys above which full buckets are removed.
    var mostKeys = 1_000
  }

  private let burst: Double
  private let perSecond: Double
  private let state = Mutex(State())

  init(burst: Int, perSecond: Int) {
    self.burst = Double(burst)
    self.perSecond = Double(perSecond)
  }

  /// Takes a token; returns false if there is none.
  func take(_ key: String, at now: ContinuousClock.Instant = .now) -> Bool {
    state.withLock { state in
      let left = state.buckets[key].map { tokens($0, now) } ?? burst
      guard left >= 1 else { return false }
      state.buckets[key] = Bucket(tokens: left - 1, time: now)
      if state.buckets.count > state.mostKeys {
        state.buckets = state.buckets.filter { tokens($0.value, now) < burst }
        state.mostKeys = max(1_000, 2 * state.buckets.count)
      }
      return true
    }
  }

  var keyCount: Int { state.withLock { $0.buckets.count } }

  private func tokens(_ bucket: Bucket, _ now: ContinuousClock.Instant) -> Double {
    min(burst, bucket.tokens + (now - bucket.time) / .seconds(1) * perSecond)
  }
}
