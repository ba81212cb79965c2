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

  init(_ refusal: Reason?) { self.init(isAccepted: refusal == nil, reason: refusal) }
}

extension FieldWriter where Self: ~Copyable {
  /// Writes the fields of an answer, after the generation; nothing if the reply has none.
  ///
  /// - Parameter reasons: those that it can have.
  @inline(__always)
  mutating func answer(_ answer: Answer?, _ reasons: @autoclosure () -> [Reason]) {
    guard let answer else { return }
    field(
      "accepted", answer.isAccepted, "Whether the request was accepted; in replies that can refuse."
    )
    field(
      "reason", answer.reason?.rawValue,
      .choice(reasons().map { "\($0.rawValue)" }).orNull,
      "Why it was refused, or accepted without effect; in replies that can refuse.")
  }
}
