/// Why an event happened, where its name alone does not show it, or why a request was refused. A
/// refused request changes nothing.
package enum Reason: Literal, CaseIterable, Sendable {
  // Sending.
  /// The cooldown after the last send is not over.
  case cooldown
  /// A window is full.
  case window
  /// No channel is left until sends start over.
  case exhausted
  case expired, locked, passed

  // Any kind.
  /// It was accepted before: this repetition changed nothing.
  case repeated
  case duplicate, cancelled
  case ownerGone = "owner-gone"
  case replaced, closed
  case parentClosed = "parent-closed"
  case rate
  /// The kinds are decided by this host alone, as the fleet's servers cannot be reached.
  case degraded

  // Gates.
  /// The session is not open.
  case login
  /// Another connection runs the action.
  case taken
  case noAction = "no-action"

  // Debouncers.
  case leading, quiet
  case maximumWait = "max-wait"
  case flush

  // Stacks.
  case transitioning, root, presented, disabled
  /// The stack has no such page.
  case noPage = "no-page"
  case outsideEdge = "outside-edge"
  case direction
  case notTransitioning = "not-transitioning"

  // Pages.
  case timedOut = "timed-out"
  /// No load is in progress.
  case notLoading = "not-loading"
  /// Only a failed load, or one that found nothing, can be retried.
  case notFailed = "not-failed"
  /// A load is in progress.
  case loading
}
