/// A countdown as it is copied from its table, without its key.
package struct CountdownEntity {
  var machine: Countdown
  package var generation: Generation
  var uid: UInt32
  var titles: Titles?
  /// The fields that few countdowns have. Once created, the object stays with its countdown.
  var extras: CountdownExtras?

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
  /// The policy and the sends under it; nil if there never was a policy.
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
  var tokens: Tokens {
    get { extras?.tokens ?? Tokens() }
    set { if extras != nil || newValue != Tokens() { makeExtras().tokens = newValue } }
  }

  private mutating func makeExtras() -> CountdownExtras {
    if extras == nil { extras = CountdownExtras() }
    return extras!
  }
}

/// The fields that only some countdowns have, kept apart so that the others stay small. Each object
/// belongs to one countdown.
final class CountdownExtras {
  var owner = Owner.none
  var sending: Sending?
  var annotations = Annotations()
  var tokens = Tokens()

  /// Returns the extras of a start; nil if it needs none.
  static func of(
    _ start: CountdownStart, _ generation: Generation, _ sending: Sending?, at now: Instant
  ) -> CountdownExtras? {
    guard
      sending != nil || start.token != nil || start.annotations != Annotations()
        || start.owner != .none
    else { return nil }
    let extras = CountdownExtras()
    extras.owner = start.owner
    extras.sending = sending
    extras.annotations = start.annotations
    extras.tokens.remember(start.token, of: .start, generation, at: now)
    return extras
  }
}
