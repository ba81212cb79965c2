/// What clients have not read, and what follows from there being too much of it.
extension Dispatcher {
  /// Takes into account what a session's output is by now; returns whether that is too much for its
  /// user.
  @discardableResult
  package func account(_ session: Session) -> Bool {
    guard let user = session.user else { return false }
    // Also of one that is being closed, for as long as it takes memory.
    let pending = session.isGone ? session.heldBytes : session.pendingOutput
    let change = pending - session.accountedOutput
    user.unreadBytes += change
    unreadBytes += change
    if unreadBytes > mostUnread { mostUnread = unreadBytes }
    session.accountedOutput = pending
    if user.unreadBytes < settings.maxOutputPerUser {
      if user.fullSince != nil { user.fullSince = nil }
      if !user.heldBack.isEmpty {
        roomFreed.append(contentsOf: user.heldBack)
        user.heldBack = []
      }
    } else if user.fullSince == nil {
      user.fullSince = batch
    }
    return user.fullSince != nil
  }

  /// The same after a reply: most often nothing follows from it.
  func account(_ session: Session, grownBy bytes: Int) {
    guard let user = session.user, bytes >= 0, user.fullSince == nil, user.heldBack.isEmpty,
      user.unreadBytes + bytes < settings.maxOutputPerUser
    else {
      account(session)
      return
    }
    user.unreadBytes += bytes
    unreadBytes += bytes
    if unreadBytes > mostUnread { mostUnread = unreadBytes }
    session.accountedOutput += bytes
  }

  /// Remembers that a connection waits for room that other connections of its user take.
  package func holdBack(_ session: Session) {
    guard let user = session.user, user.fullSince != nil else { return }
    user.heldBack.insert(session.client.connection)
  }

  /// Returns the connections that were held back and may continue, and forgets them.
  package func takeRoomFreed() -> [UInt64] {
    defer { roomFreed = [] }
    return roomFreed
  }

  /// Whether so much was unread, and has been freed since the last call, that it is worth returning
  /// to the system.
  package func takePeak() -> Bool {
    guard mostUnread >= Self.peak, unreadBytes < mostUnread / 8 else { return false }
    mostUnread = unreadBytes
    return true
  }

  /// In bytes. Less than this is used again before long.
  private static let peak = 8 << 20

  /// Whether nothing more is to be done for a session before it has read what waits for it.
  package func isFull(_ session: Session) -> Bool { session.user?.fullSince != nil }

  /// Whether it is worth waiting for the end of the batch: what fills the room may be written then.
  package func mayHaveRoomSoon(_ session: Session) -> Bool { session.user?.fullSince == batch }

  /// How many commands of a session may be done before others go first; long ones count for
  /// several. 0 if its user has had all of its share. Where there are no others nobody has to wait.
  package func share(of session: Session, _ commandsPerTurn: Int) -> Int {
    guard users.count > 1, let user = session.user else { return commandsPerTurn }
    return user.share(of: commandsPerTurn, in: round)
  }

  func checkRoom(_ session: Session) throws(CommandError) {
    guard isFull(session) else { return }
    host.limitReached("max-output-per-uid", settings.maxOutputPerUser, by: session.client, key: nil)
    throw CommandError(
      "LIMIT max-output-per-uid is \(settings.maxOutputPerUser) and reached: connections of "
        + "uid \(session.client.uid) do not read what they are sent; CLIENT LIST shows them as omem"
    )
  }

  /// After `what` was added to a session: it is closed if that is too much for it, and where it is
  /// too much for its user the connection that has read least.
  func closeIfFull(_ session: Session, _ what: String) {
    let unread = session.pendingOutput
    if unread > settings.maxOutput {
      return drop(
        session,
        "it has not read \(unread) bytes of \(what), max-output is \(settings.maxOutput)")
    }
    guard account(session), let user = session.user else { return }
    let all = user.unreadBytes
    let slowest = sessions.values.filter { $0.user === user }
      .max { $0.pendingOutput < $1.pendingOutput }
    guard let slowest else { return }
    drop(
      slowest,
      "it has not read \(slowest.pendingOutput) bytes, its user \(all) in all, "
        + "max-output-per-uid is \(settings.maxOutputPerUser)")
  }

  private func drop(_ session: Session, _ reason: String) {
    statistics.outputLimitDisconnections += 1
    session.isClosing = true
    session.discardOutput()
    account(session)
    host.close(session.client.connection, .outputLimit(reason))
  }
}
