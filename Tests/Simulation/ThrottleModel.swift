import Countdowns

/// A naive model of throttles: a bucket that fills by `use` with each use, and leaks by `count`
/// with each microsecond.
package struct ThrottleModel: Model {
  package enum Command {
    case take(Throttle.Rate, cost: UInt32, isPeek: Bool)
    case refund(UInt32, Generation?)
    case get
  }

  package struct Facts: Equatable {
    var state: ThrottleView.State
    var generation: Generation
    var limit: Int64
    var remaining: Int64
    var retryAfterMS: Int64
    var resetAfterMS: Int64
  }

  private struct Bucket {
    let key: Int
    let rate: Throttle.Rate
    let generation: Generation
    var level: Int128
    /// The moment of this level, in microseconds.
    var at: Int64
    var use: Int128 { Int128(rate.period.microseconds) }
    var full: Int128 { Int128(rate.burst) * use }
    var empty: Int64 { at + Self.ceiling(level, Int128(rate.count)) }

    static func ceiling(_ a: Int128, _ b: Int128) -> Int64 { Int64((a + b - 1) / b) }

    func leaked(until now: Int64) -> Bucket {
      var bucket = self
      bucket.level = max(level - Int128(now - at) * Int128(rate.count), 0)
      bucket.at = now
      return bucket
    }

    /// What was used stays used, and comes back at another rate.
    func changed(to new: Throttle.Rate) -> Bucket {
      guard new != rate else { return self }
      var bucket = Bucket(key: key, rate: new, generation: generation, level: 0, at: at)
      let parts = (min(level, full) * bucket.use + use - 1) / use
      bucket.level = min(parts, bucket.full)
      return bucket
    }

    /// Returns the first moment at which a request is accepted, by trying moments.
    func accepts(_ cost: UInt32, _ new: Throttle.Rate) -> Int64 {
      var (early, late) = (at - 1, max(empty, at))
      while late - early > 1 {
        let moment = early + (late - early) / 2
        let bucket = leaked(until: moment).changed(to: new)
        let isAccepted = bucket.level + Int128(cost) * bucket.use <= bucket.full
        (early, late) = isAccepted ? (early, moment) : (moment, late)
      }
      return late
    }

    func facts(cost: UInt32 = 1, before level: Int128? = nil) -> Facts {
      let excess = (level ?? self.level) + Int128(cost) * use - full
      let left = Int64((full - self.level) / use)
      return Facts(
        state: self.level == 0 ? .idle : left > 0 ? .available : .exhausted,
        generation: generation, limit: Int64(rate.burst), remaining: left,
        retryAfterMS: Self.ceiling(max(excess, 0), Int128(rate.count)).roundedUp,
        resetAfterMS: Self.ceiling(self.level, Int128(rate.count)).roundedUp)
    }
  }

  package static let kind = EntityKind.throttle
  package static let keyPrefix: Unicode.Scalar = "r"
  package static let ending = [Command.refund(1_000_000_000, nil)]

  private let rates: [Throttle.Rate]
  /// The buckets in the order in which they were armed for their deadlines.
  private var buckets: [Bucket] = []
  package var said: [Said] = []

  /// Each key has its rate, and a request may have another.
  package init(keyCount: Int, _ settings: EngineSettings) {
    let samples: [(Int64, Int64, Interval)] = [
      (1, 7, .seconds(1)), (5, 5, .seconds(10)), (3, 1, .milliseconds(500)),
      (10, 1_000, .seconds(3)), (2, 1, .seconds(4_000)), (7, 11, .milliseconds(13)),
    ]
    rates = (0..<keyCount).map {
      let (burst, count, period) = samples[$0 % samples.count]
      return Throttle.Rate(burst: burst, count: count, period: period)!
    }
  }

  // MARK: Commands

  package func command(_ key: Int, _ world: inout World) -> Command {
    switch Int.random(in: 0..<10, using: &world.random) {
    case 0..<7:
      var cost: UInt32 = 1
      let rate = world.chance(oneIn: 6) ? world.pick(rates) : rates[key]
      if world.chance(oneIn: 3) {
        cost = UInt32.random(in: 1...rate.burst, using: &world.random)
      }
      return .take(rate, cost: cost, isPeek: world.chance(oneIn: 5))
    case 7:
      return .refund(
        UInt32.random(in: 1...4, using: &world.random),
        world.generation(near: bucket(key)?.generation))
    default: return .get
    }
  }

  package static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts> {
    switch command {
    case .take(let rate, let cost, let isPeek):
      let (isAccepted, view) = try engine.takeThrottle(
        key, rate, cost: cost, isPeek: isPeek, by: client, at: now)
      return .reported(isFirst: isAccepted, Facts(view))
    case .refund(let cost, let generation):
      let answer = try engine.refundThrottle(key, cost: cost, generation: generation, at: now)
      return answer.map { .facts(Facts($0.view)) } ?? .nothing
    case .get:
      return engine.throttle(key, at: now).map { .facts(Facts($0)) } ?? .nothing
    }
  }

  package mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts> {
    let now = world.now.boot.microseconds
    let found = bucket(key)?.leaked(until: now)
    switch command {
    case .take(let rate, let cost, let isPeek):
      var bucket =
        found?.changed(to: rate)
        ?? Bucket(key: key, rate: rate, generation: Generation(0), level: 0, at: now)
      let before = bucket.level
      let isAccepted = before + Int128(cost) * bucket.use <= bucket.full
      guard isAccepted, !isPeek else {
        if !isPeek { say(.refused, bucket, reason: .rate) }
        var facts = bucket.facts(cost: cost)
        if !isAccepted, let found, found.rate != rate {
          facts.retryAfterMS = (found.accepts(cost, rate) - now).roundedUp
          facts.resetAfterMS = (found.empty - now).roundedUp
        }
        return .reported(isFirst: isAccepted, facts)
      }
      if found == nil {
        bucket = Bucket(
          key: key, rate: rate, generation: world.newGeneration(), level: 0, at: now)
      }
      bucket.level += Int128(cost) * bucket.use
      put(bucket)
      say(.accepted, bucket)
      return .reported(isFirst: true, bucket.facts(cost: cost, before: before))
    case .refund(let cost, let generation):
      guard var bucket = found else { return .nothing }
      if let generation, generation != bucket.generation {
        throw .stale(now: bucket.generation)
      }
      bucket.level = max(bucket.level - Int128(cost) * bucket.use, 0)
      say(.refunded, bucket)
      if bucket.level == 0 { buckets.removeAll { $0.key == key } } else { put(bucket) }
      return .facts(bucket.facts())
    case .get:
      return found.map { .facts($0.facts()) } ?? .nothing
    }
  }

  // MARK: Time

  package mutating func settle(_ key: Int, _ world: World) {
    guard let bucket = bucket(key), bucket.empty <= world.now.boot.microseconds else { return }
    buckets.removeAll { $0.key == key }
    say(.ready, bucket, due: bucket.empty)
  }

  package func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)? {
    bucket(key).map { (.boot, $0.empty) }
  }

  package var order: [Int] { buckets.sorted { $0.empty < $1.empty }.map(\.key) }

  // MARK: State

  package func exists(_ key: Int) -> Bool { bucket(key) != nil }

  package func facts(_ key: Int, _ world: World) -> [Facts] {
    bucket(key).map { [$0.leaked(until: world.now.boot.microseconds).facts()] } ?? []
  }

  package static func facts(_ subject: any EntityView) -> Facts? {
    (subject as? ThrottleView).map { Facts($0) }
  }

  // MARK: Buckets

  private func bucket(_ key: Int) -> Bucket? { buckets.first { $0.key == key } }

  private mutating func put(_ bucket: Bucket) {
    buckets.removeAll { $0.key == bucket.key }
    buckets.append(bucket)
  }

  private mutating func say(
    _ name: Event.Name, _ bucket: Bucket, due: Int64? = nil, reason: Reason? = nil
  ) {
    said.append(Said(name, bucket.generation, due: due, reason: reason))
  }
}

extension ThrottleModel.Facts {
  init(_ view: ThrottleView) {
    self.init(
      state: view.state, generation: view.generation, limit: view.limit,
      remaining: view.remaining, retryAfterMS: view.retryAfterMS,
      resetAfterMS: view.resetAfterMS)
  }
}
