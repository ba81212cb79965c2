/// Snapshots for new subscribers, also of what may turn out not to be so: then they are withdrawn, and told
/// anew.
extension Dispatcher {
  /// Goes on with snapshots for a session that can take more; returns whether there are more.
  package func continueSnapshots(for session: Session, budget: Int, at now: Moment) -> Bool {
    let patterns = engine.continueSnapshots(
      to: session.client.connection, budget: budget, at: now)
    // What is gone for now, and was passed over, may come back.
    if mayTakeBack {
      session.provisionalSnapshots += patterns.map(SnapshotOrigin.pattern)
      touch(session)
    }
    deliver()
    return engine.isSnapshotAwaited(by: session.client.connection)
  }

  /// Whether it shows how something is that may be kept, while it may turn out not to be so.
  func isUncertainSnapshot(_ publication: Publication) -> Bool {
    publication.event.name == .snapshot && publication.kind.canBeDurable && mayTakeBack
  }

  /// Tells how things are in place of snapshots that were withdrawn.
  package func repeatSnapshots(
    _ origins: [SnapshotOrigin], for session: Session, at now: Moment
  ) {
    let connection = session.client.connection
    guard sessions[connection] != nil else { return }
    // A screen has one for each level.
    for origin in Set(origins) {
      switch origin {
      case .channel(let channel): engine.repeatSnapshot(of: channel, to: connection, at: now)
      case .pattern(let pattern): engine.repeatSnapshots(of: pattern, to: connection)
      }
    }
    deliver()
  }
}
