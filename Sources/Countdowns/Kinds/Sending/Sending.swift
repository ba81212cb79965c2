/// A policy and the sends under it. Each object belongs to one countdown.
final class Sending {
  var policy: SendPolicy
  var record: SendRecord
  /// Whether the last START named the policy. If not, it is kept for the next START that does.
  var isInForce = true
  /// The keys of the limits of the last START.
  var limits: [[UInt8]] = []
  /// When the countdown would have been over but for its limits, if it counts on for them. From
  /// then on START is accepted as soon as there is room.
  var ownUntil: Instant?
  /// What was left until then, if it was paused meanwhile.
  var ownLeft: Interval?

  init(_ policy: SendPolicy, _ record: SendRecord = SendRecord()) {
    self.policy = policy
    self.record = record
  }

  var format: UInt8 {
    max(
      record.format, ownLeft == nil ? EntityRecord.plain : EntityRecord.pausedWait,
      policy.isBounded ? EntityRecord.bounded : EntityRecord.plain,
      policy.isExtended || !limits.isEmpty ? EntityRecord.extended : EntityRecord.plain)
  }

  func pauseWait(at now: Instant) {
    ownLeft = ownUntil.map { max($0 - now, .zero) }
    ownUntil = nil
  }

  func endWait() { (ownUntil, ownLeft) = (nil, nil) }

  /// Returns the record as it counts for a policy, which may succeed this one.
  func record(for policy: SendPolicy, at now: Instant) -> SendRecord {
    policy == self.policy ? record : record.handedOver(from: self.policy, at: now)
  }
}
