/// The codes of the sends: how long each is valid, and how often it may be tried.
///
///     (none) --send--> good --last attempt--> locked
///     good, locked --validity over--> expired      any --pass--> passed      any --send--> good
///
/// A resend makes earlier codes expire at once if the policy says `replace`. The code itself is
/// never known here.
extension SendRecord {
  /// The most codes that are valid at the same time; the oldest gives way.
  package static let mostCodes = 16

  package enum Attempt: Equatable, Sendable {
    /// It may be checked; `isLast` if it is the last one that may.
    case accepted(isLast: Bool)
    /// Its validity is over, or it was replaced or refunded.
    case expired
    /// It was tried as often as it may be.
    case locked
    /// It was used before.
    case passed
  }

  package enum Pass: Equatable, Sendable {
    case accepted
    /// It was marked as used before.
    case acceptedBefore
    /// It is no longer valid.
    case expired
  }

  // MARK: Inputs

  /// Counts an attempt at a code: of that generation, else the newest.
  package mutating func attempt(
    _ generation: Generation?, by policy: SendPolicy, at now: Instant
  ) -> Attempt {
    if isPassed { return .passed }
    guard let index = index(of: generation), let expires = sends[index].expires, expires > now
    else { return .expired }
    let most = policy.rules.attempts ?? .max
    guard sends[index].attempts < most else { return .locked }
    sends[index].attempts += 1
    return .accepted(isLast: sends[index].attempts == most)
  }

  /// Marks a code as used: of that generation, else the newest. There are no more attempts until
  /// the next send. A code that may not be tried because of its attempts may still be the right
  /// one.
  package mutating func pass(_ generation: Generation?, at now: Instant) -> Pass {
    if isPassed { return .acceptedBefore }
    guard code(generation, at: now) != nil else { return .expired }
    isPassed = true
    forgetCodes()
    return .accepted
  }

  /// The code that expired first, once; nil if none has by now.
  package mutating func expireCode(by policy: SendPolicy, at now: Instant) -> Send? {
    guard let due = nextCodeExpiry, due <= now,
      let index = sends.firstIndex(where: { $0.expires == due })
    else { return nil }
    let send = sends[index]
    sends[index].expires = nil
    // As of then, or a policy that comes later would find more or less by when this was noticed.
    prune(by: policy, at: due)
    return send
  }

  mutating func forgetCodes() {
    for index in sends.indices.suffix(Self.mostCodes) { sends[index].expires = nil }
  }

  // MARK: What is so

  package var nextCodeExpiry: Instant? { codes.compactMap(\.expires).min() }

  /// The code of that generation, else the newest, if it is valid.
  package func code(_ generation: Generation?, at now: Instant) -> Send? {
    guard let index = index(of: generation), let expires = sends[index].expires, expires > now
    else { return nil }
    return sends[index]
  }

  private func index(of generation: Generation?) -> Int? {
    guard let generation else { return sends.indices.last }
    return codes.lastIndex { $0.generation == generation }
  }

  /// Only these can have a valid code.
  var codes: ArraySlice<Send> { sends.suffix(Self.mostCodes) }
}
