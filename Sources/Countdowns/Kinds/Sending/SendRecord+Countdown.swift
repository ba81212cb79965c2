/// The countdown of a key with a policy. It lasts for the cooldown, and for as long as windows and
/// channels allow no send, so that `ready` means that a code may be sent.
///
/// The countdown may be paused, retimed and cancelled; sends stay in the windows, and only
/// a refund removes one.
extension SendRecord {
  /// Records a send and starts its cooldown. `Countdown.refusal` must be nil.
  package mutating func accept(
    _ generation: Generation, _ countdown: inout Countdown, firesAtOnce: Bool,
    by policy: SendPolicy, limits: [[UInt8]] = [], at now: Instant
  ) {
    enter(generation, by: policy, limits: limits, at: now)
    _ = countdown.start(policy.plan(after: number, firesAtOnce: firesAtOnce), at: now)
    hold(&countdown, by: policy, at: now)
  }

  /// Does the same for a key without a countdown.
  package mutating func accept(
    _ generation: Generation, firesAtOnce: Bool, by policy: SendPolicy, limits: [[UInt8]] = [],
    at now: Instant
  ) -> Countdown {
    enter(generation, by: policy, limits: limits, at: now)
    var countdown = Countdown(policy.plan(after: number, firesAtOnce: firesAtOnce), at: now)
    hold(&countdown, by: policy, at: now)
    return countdown
  }

  /// Extends a countdown that has changed, so that it is not ready before a code may be sent.
  package func hold(_ countdown: inout Countdown, by policy: SendPolicy, at now: Instant) {
    if let block = block(by: policy, at: now) { countdown.hold(until: block.until) }
  }

  package enum Refund: Equatable, Sendable {
    case accepted
    /// The send was given back before.
    case acceptedBefore
    /// The policy gives no more sends back for a while. Nothing has changed.
    case refused
  }

  /// Refunds the newest send and its cooldown, but no lockout.
  package mutating func refund(
    _ countdown: inout Countdown, by policy: SendPolicy, at now: Instant
  ) -> Refund {
    guard countdown.isRefunded || refundFilling(by: policy, at: now)?.left != 0 else {
      return .refused
    }
    guard countdown.refund(at: now) else { return .acceptedBefore }
    refund(by: policy, at: now)
    hold(&countdown, by: policy, at: now)
    return .accepted
  }

  /// Returns how long a ready or cancelled countdown is retained: until its sends no longer matter,
  /// and at least `least` if it is ready.
  package func kept(
    _ countdown: Countdown, least: Interval, by policy: SendPolicy, at now: Instant
  ) -> Interval {
    switch countdown.phase {
    case .counting, .paused: least
    case .ready(let since): max(least, (matters(to: policy, at: now) ?? since) - since)
    case .idle(let since): max(.zero, (matters(to: policy, at: now) ?? since) - since)
    }
  }
}

extension Countdown {
  /// Returns why no code may be sent now: whichever of cooldown, window and channels ends last. Nil
  /// if one may. While paused, `until` is the earliest possible time.
  package func refusal(
    by policy: SendPolicy?, _ record: SendRecord?, at now: Instant
  ) -> Refusal? {
    let block = policy.flatMap { record?.block(by: $0, at: now) }
    guard isPending else { return block }
    let until = now + remainingTime(at: now)
    if let block, block.until >= until { return block }
    return Refusal(.cooldown, until: until)
  }
}
