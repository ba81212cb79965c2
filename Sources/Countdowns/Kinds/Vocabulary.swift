extension Event {
  /// The names of events. Each kind describes those that it publishes: see `Kind.events`.
  package enum Name: Literal, CaseIterable, Sendable {
    case snapshot
    case started, tick, ready, refused, paused, resumed, retimed, cancelled
    case refunded, expired, locked, passed
    case willAppear = "will-appear"
    case didAppear = "did-appear"
    case updated, touched
    case willDisappear = "will-disappear"
    case didDisappear = "did-disappear"
    case set, fired
    case accepted, done, pending, run, taken, dismissed, opened, closed, emitted
    case swiping, progress, finished
    case loading, loaded, failed
    case full, room, blocked, unblocked, forgiven

    /// Whether the entity has changed; a tick or a refusal changes nothing.
    package var changesState: Bool {
      switch self {
      case .snapshot, .tick, .refused, .touched: false
      default: true
      }
    }

    /// Whether a newer event replaces it for a client that reads too slowly.
    package var canBeMerged: Bool { self == .tick || self == .progress }
  }
}

/// Why an event happened, where its name alone does not show it, or why a request was refused. A
/// refused request changes nothing.
package enum Reason: Literal, CaseIterable, Sendable {
  // Sending.
  case cooldown, window, exhausted, expired, locked, passed, limit, blocked
  case guesses, refunds

  // Any kind.
  case repeated, duplicate, cancelled
  case ownerGone = "owner-gone"
  case replaced, closed
  case parentClosed = "parent-closed"
  case rate, degraded, exists

  // Gates.
  case login, taken
  case noAction = "no-action"

  // Idempotency keys.
  case lease, mismatch

  // Debouncers.
  case leading, quiet
  case maximumWait = "max-wait"
  case spacing, flush

  // Stacks.
  case transitioning, root, presented, disabled
  case noPage = "no-page"
  case outsideEdge = "outside-edge"
  case direction
  case notTransitioning = "not-transitioning"

  // Pages.
  case timedOut = "timed-out"
  case notLoading = "not-loading"
  case notFailed = "not-failed"
  case loading

  /// What it means.
  package var help: String {
    switch self {
    case .cooldown: "In cooldown, or paused."
    case .window: "A window of the policy is full."
    case .exhausted: "The policy has no channel left until sends start over."
    case .expired: "The validity, the lease or TTL is over; a resend replaced the code."
    case .locked: "No attempts are left for the code; or the lockout after that is not over."
    case .limit: "A named limit has no room."
    case .blocked: "Too few codes of a named limit were entered, so it refuses for a while."
    case .passed: "PASS has used the code."
    case .guesses: "The attempts of the key over all its codes are used up for a while."
    case .refunds: "So many sends were given back that no more are for a while."
    case .repeated: "It was accepted before: this repetition changed nothing."
    case .duplicate: "Another request has begun or finished it."
    case .cancelled: "It was cancelled."
    case .ownerGone: "Its owner has gone."
    case .replaced: "A newer one has replaced it."
    case .closed: "It was closed."
    case .parentClosed: "The scope above was closed."
    case .rate: "The rate limit is exhausted."
    case .exists: "There is one already, which stays as it is."
    case .degraded: "This host alone accepted it, as the fleet's servers cannot be reached."
    case .lease: "The lease is over; the work was not done."
    case .mismatch: "The key belongs to a request with another FINGERPRINT."
    case .login: "The session is not open."
    case .taken: "Another connection runs the action."
    case .noAction: "There is no action."
    case .leading: "The first call of a burst."
    case .quiet: "No call came for the quiet time."
    case .maximumWait: "MAXWAIT is over."
    case .spacing: "SPACING is over."
    case .flush: "FLUSH."
    case .transitioning: "A transition is in progress."
    case .root: "The first page cannot be popped."
    case .presented: "A presented page cannot be swiped away."
    case .disabled: "The page forbids it with POP off."
    case .noPage: "The stack has no such page."
    case .outsideEdge: "The swipe began too far from the edge."
    case .direction: "The swipe went in the other direction."
    case .notTransitioning: "No transition is in progress."
    case .timedOut: "It took too long."
    case .notLoading: "No load is in progress."
    case .notFailed: "Only a failed load, or one that found nothing, can be retried."
    case .loading: "A load is in progress."
    }
  }
}
