/// A countdown as it is taken out of its table; its key stays there.
struct CountdownEntity {
  var machine: Countdown
  var generation: Generation
  let uid: UInt32
  var titles: Titles?
  /// Beside it, and the same as long as it lives.
  fileprivate(set) var extras: CountdownExtras?

  init(
    machine: Countdown, generation: Generation, uid: UInt32, titles: Titles?,
    extras: CountdownExtras? = nil
  ) {
    self.machine = machine
    self.generation = generation
    self.uid = uid
    self.titles = titles
    self.extras = extras
  }

  var terms: Terms { Terms(plan: machine.plan, uid: uid, titles: titles) }

  var owner: Owner {
    get { extras?.owner ?? .none }
    set { if extras != nil || newValue != .none { makeExtras().owner = newValue } }
  }
  /// What was sent under a policy; nil if it never had one.
  var sending: Sending? {
    get { extras?.sending }
    set { if extras != nil || newValue != nil { makeExtras().sending = newValue } }
  }
  var annotations: Annotations {
    get { extras?.annotations ?? Annotations() }
    set {
      if extras != nil || newValue != Annotations() { makeExtras().annotations = newValue }
    }
  }
  /// The newest tokens of accepted starts; see `SentToken.most`.
  var tokens: [SentToken] {
    get { extras?.tokens ?? [] }
    set { if extras != nil || !newValue.isEmpty { makeExtras().tokens = newValue } }
  }

  private mutating func makeExtras() -> CountdownExtras {
    if extras == nil { extras = CountdownExtras() }
    return extras!
  }
}

/// What only some countdowns have. Beside them, so that the others do not grow by it; each belongs
/// to one countdown.
final class CountdownExtras {
  var owner = Owner.none
  var sending: Sending?
  var annotations = Annotations()
  var tokens: [SentToken] = []

  /// Nil if a start has nothing to be kept beside it.
  static func of(
    _ start: CountdownStart, _ generation: Generation, _ sending: Sending?
  ) -> CountdownExtras? {
    guard
      sending != nil || start.token != nil || start.annotations != Annotations()
        || start.owner != .none
    else { return nil }
    let extras = CountdownExtras()
    extras.owner = start.owner
    extras.sending = sending
    extras.annotations = start.annotations
    extras.tokens = start.token.map { [SentToken($0, generation)] } ?? []
    return extras
  }
}

/// The token of a start that was accepted.
package struct SentToken: Equatable, Sendable {
  /// How many a key remembers; the oldest makes room.
  package static let most = 16

  package var token: [UInt8]
  package var generation: Generation

  package init(_ token: [UInt8], _ generation: Generation) {
    self.token = token
    self.generation = generation
  }
}

/// A policy, and what was sent under it; each belongs to one countdown.
final class Sending {
  var policy: SendPolicy
  var record: SendRecord
  /// Whether the last start named it. If not, it is remembered for the next one that does.
  var isInForce = true

  init(_ policy: SendPolicy, _ record: SendRecord = SendRecord()) {
    self.policy = policy
    self.record = record
  }

  /// What was sent, as far as it matters to a policy that may follow this one.
  func record(for policy: SendPolicy, at now: Instant) -> SendRecord {
    policy == self.policy ? record : record.handedOver(from: self.policy, at: now)
  }
}
