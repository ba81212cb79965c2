/// Whether a request was accepted, and the reason of a refusal or of a repetition.
package struct Answer: Sendable {
  var isAccepted: Bool
  var reason: Reason?

  init(isAccepted: Bool, reason: Reason? = nil) {
    self.isAccepted = isAccepted
    self.reason = reason
  }

  /// Creates an acceptance: a repetition, which changes nothing, is accepted as well.
  init(isFirst: Bool) { self.init(isAccepted: true, reason: isFirst ? nil : .repeated) }

  init(_ decision: StartDecision) {
    self.init(isAccepted: decision.isAccepted, reason: decision.reason)
  }

  init(_ attempt: SendRecord.Attempt) {
    switch attempt {
    case .accepted: self.init(isAccepted: true)
    case .expired: self.init(isAccepted: false, reason: .expired)
    case .locked: self.init(isAccepted: false, reason: .locked)
    case .passed: self.init(isAccepted: false, reason: .passed)
    }
  }

  init(_ pass: SendRecord.Pass) {
    switch pass {
    case .accepted: self.init(isFirst: true)
    case .acceptedBefore: self.init(isFirst: false)
    case .expired: self.init(isAccepted: false, reason: .expired)
    }
  }

  init(_ refusal: Reason?) { self.init(isAccepted: refusal == nil, reason: refusal) }

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("accepted", isAccepted)
    if let reason { writer.field("reason", reason.text) } else { writer.null("reason") }
  }
}
