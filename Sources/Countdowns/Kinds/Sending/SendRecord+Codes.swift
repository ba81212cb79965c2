/// The codes of the sends: how long each is valid, and how often it may be tried.
///
///     (none) --send--> good --last attempt--> locked
///     good, locked --validity over--> expired      any --pass--> passed      any --send--> good
///
/// A resend makes earlier codes expire at once if the policy says `replace`. The code itself never
/// reaches the daemon.
extension SendRecord {
  /// The most codes that are valid at the same time; the oldest gives way.
  package static let maximumCodes = 16

  package enum Attempt: Equatable, Sendable {
    /// The code may be checked; `isLast` if this is its last attempt.
    case accepted(isLast: Bool)
    /// The code's validity is over, or it was replaced or refunded.
    case expired
    /// The code has no attempts left.
    case locked
    /// A code was used since the newest send.
    case passed
    /// The key has no guesses left, or a limit of attempts has no room, whichever code it is.
    case refused(Reason)
  }

  package enum Pass: Equatable, Sendable {
    case accepted
    /// A code was already marked as used.
    case acceptedBefore
    /// The code is no longer valid.
    case expired
  }

  // MARK: Inputs

  /// Counts an attempt at the code of that generation, or at the newest if nil.
  package mutating func attempt(
    _ generation: Generation?, by policy: SendPolicy, at now: Instant
  ) -> Attempt {
    if isPassed { return .passed }
    guard guessBlock(by: policy, at: now) == nil else { return .refused(.guesses) }
    guard let index = index(of: generation), isValid(index, at: now) else { return .expired }
    guard sends[index].attempts < policy.attemptLimit else { return .locked }
    guess(at: sends[index].generation, by: policy, at: now)
    return .accepted(isLast: countAttempt(at: CollectionOfOne(index), by: policy, at: now))
  }

  /// Counts one attempt at each valid code that has attempts left: those may be checked, until
  /// `tried` has others.
  package mutating func attemptAny(by policy: SendPolicy, at now: Instant) -> Attempt {
    if isPassed { return .passed }
    guard guessBlock(by: policy, at: now) == nil else { return .refused(.guesses) }
    let valid = sends.indices.suffix(Self.maximumCodes).filter { isValid($0, at: now) }
    guard !valid.isEmpty else { return .expired }
    let open = valid.filter { sends[$0].attempts < policy.attemptLimit }
    guard !open.isEmpty else { return .locked }
    tried = open.map { sends[$0].generation }
    guess(at: sends[sends.count - 1].generation, isAtAny: true, by: policy, at: now)
    return .accepted(isLast: countAttempt(at: open, by: policy, at: now))
  }

  /// Counts an attempt at these codes. However many of them are locked by it, that is one step of
  /// the lockout. Returns whether any is.
  private mutating func countAttempt(
    at indices: some Collection<Int>, by policy: SendPolicy, at now: Instant
  ) -> Bool {
    for index in indices { sends[index].attempts += 1 }
    let isLast = indices.contains { sends[$0].attempts == policy.attemptLimit }
    let before = lockCount(by: policy, at: now)
    if isLast, let step = policy.lockout(after: before) {
      locks = before + 1
      lockedUntil = max(lockedUntil ?? now, now + step)
    }
    return isLast
  }

  /// Takes one of the key's guesses.
  private mutating func guess(
    at code: Generation, isAtAny: Bool = false, by policy: SendPolicy, at now: Instant
  ) {
    guard policy.rules.guesses != nil else { return }
    pruneGuesses(by: policy, at: now)
    // A server's clock may have been set back.
    let at = max(now, guesses.last?.at ?? now)
    guesses.append(Guess(at: at, generation: code, isAtAny: isAtAny))
  }

  /// Drops guesses that have left their window.
  mutating func pruneGuesses(by policy: SendPolicy, at now: Instant) {
    guard let window = policy.rules.guesses else { return }
    guesses.removeAll { $0.at + window.length <= now }
  }

  /// Marks the code of that generation, or the newest if nil, as used, and returns the guesses that
  /// were made at it. No code may be tried until
  /// the next send. This also works without attempts left: the last one may have been right.
  package mutating func pass(_ generation: Generation?, at now: Instant) -> Pass {
    if isPassed { return .acceptedBefore }
    guard let code = code(generation, at: now) else { return .expired }
    isPassed = true
    tried = []
    guesses.removeAll { $0.isAt(code.generation) }
    (locks, lockedUntil) = (0, nil)
    forgetCodes()
    return .accepted
  }

  /// Invalidates the first code that has expired by now; returns its send, or nil if there is none.
  package mutating func expireCode(by policy: SendPolicy, at now: Instant) -> Send? {
    guard let due = nextCodeExpiry, due <= now,
      let index = sends.firstIndex(where: { $0.expires == due })
    else { return nil }
    let send = sends[index]
    sends[index].expires = nil
    // As of `due`, so that it makes no difference to a later policy when this was noticed.
    prune(by: policy, at: due)
    return send
  }

  /// The sends whose codes a limit may learn about.
  var openCodes: [Send] { codes.filter { $0.expires != nil && !$0.limits.isEmpty } }

  mutating func forgetCodes() {
    for index in sends.indices.suffix(Self.maximumCodes) { sends[index].expires = nil }
  }

  // MARK: State

  /// Returns how many codes were locked since the steps of the lockout started over: when a code
  /// was used, or after a quiet time as long as the longest step.
  func lockCount(by policy: SendPolicy, at now: Instant) -> UInt32 {
    guard let end = lockEnd(by: policy), end > now else { return 0 }
    return locks
  }

  /// Returns when the steps of the lockout start over; nil if they have.
  func lockEnd(by policy: SendPolicy) -> Instant? {
    lockedUntil.map { $0 + (policy.rules.lockout.max() ?? .zero) }
  }

  /// Returns how many guesses are in their window; nil if nothing bounds them.
  func guessFilling(by policy: SendPolicy, at now: Instant) -> BoundFilling? {
    policy.rules.guesses.map { BoundFilling($0, guesses.lazy.map { $0.at }, at: now) }
  }

  /// Returns until when the key has no guesses left; nil if it has.
  func guessBlock(by policy: SendPolicy, at now: Instant) -> Refusal? {
    guessFilling(by: policy, at: now)?.fullUntil.map { Refusal(.guesses, until: $0) }
  }

  /// Returns when the newest guess leaves its window; nil if there is none.
  func guessEnd(by policy: SendPolicy) -> Instant? {
    guard let window = policy.rules.guesses, let last = guesses.last else { return nil }
    return last.at + window.length
  }

  package var nextCodeExpiry: Instant? { codes.compactMap(\.expires).min() }

  /// Returns the send of that generation, or the newest if nil, if its code is valid.
  package func code(_ generation: Generation?, at now: Instant) -> Send? {
    guard let index = index(of: generation), isValid(index, at: now) else { return nil }
    return sends[index]
  }

  /// Returns the valid codes that `attemptAny` has tried last, up to a generation.
  func triedCodes(upTo newest: Generation, at now: Instant) -> [Send] {
    tried.filter { $0 <= newest }.compactMap { code($0, at: now) }
  }

  private func isValid(_ index: Int, at now: Instant) -> Bool {
    sends[index].expires.map { $0 > now } ?? false
  }

  private func index(of generation: Generation?) -> Int? {
    guard let generation else { return sends.indices.last }
    return codes.lastIndex { $0.generation == generation }
  }

  /// The newest sends: no others can have a valid code.
  var codes: ArraySlice<Send> { sends.suffix(Self.maximumCodes) }
}
