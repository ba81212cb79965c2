/// Accounts for the output that clients have not read, and limits it.
extension Dispatcher {
  /// Counts a session's current output. Returns whether its user has too much.
  @discardableResult
  package func account(_ session: Session) -> Bool {
    guard let user = session.user else { return false }
    // A closed session counts, too, for as long as its output takes memory.
    let pending = session.isGone ? session.heldBytes : session.pendingOutput
    let change = pending - session.accountedOutput
    user.unreadBytes += change
    unreadBytes += change
    if unreadBytes > maximumUnread { maximumUnread = unreadBytes }
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

  /// Counts the bytes of a reply: the fast path for a user below its limit.
  func account(_ session: Session, grownBy bytes: Int) {
    guard let user = session.user, bytes >= 0, user.fullSince == nil, user.heldBack.isEmpty,
      user.unreadBytes + bytes < settings.maxOutputPerUser
    else {
      account(session)
      return
    }
    user.unreadBytes += bytes
    unreadBytes += bytes
    if unreadBytes > maximumUnread { maximumUnread = unreadBytes }
    session.accountedOutput += bytes
  }

  /// Remembers that a connection waits for room that other connections of its user take up.
  package func holdBack(_ session: Session) {
    guard let user = session.user, user.fullSince != nil else { return }
    user.heldBack.insert(session.client.connection)
  }

  /// Returns the connections that were held back and may continue, and forgets them.
  package func takeRoomFreed() -> [UInt64] {
    defer { roomFreed = [] }
    return roomFreed
  }

  /// Returns whether there was a peak of unread output, most of which has been freed since the last
  /// call, so that it is worth returning memory to the system.
  package func takePeak() -> Bool {
    guard maximumUnread >= Self.peak, unreadBytes < maximumUnread / 8 else { return false }
    maximumUnread = unreadBytes
    return true
  }

  /// The smallest peak that counts, in bytes: the memory of less is soon used again.
  private static let peak = 8 << 20

  /// Returns whether a session's user must read output before more is done for it.
  package func isFull(_ session: Session) -> Bool { session.user?.fullSince != nil }

  /// Returns whether the end of the batch may make room, as output is written then.
  package func mayHaveRoomSoon(_ session: Session) -> Bool { session.user?.fullSince == batch }

  /// Begins a session's turn. Returns how many units it may spend before others go first: 0 if its
  /// user has used up its share; `commandsPerTurn` if there are no other users.
  package func beginTurn(_ session: Session, _ commandsPerTurn: Int) -> Int {
    guard users.count > 1, let user = session.user else { return commandsPerTurn }
    return user.share.beginTurn(commandsPerTurn, in: fairness.round)
  }

  func checkRoom(_ session: Session) throws(CommandError) {
    guard isFull(session) else { return }
    host.note(
      .limitReached("max-output-per-uid", settings.maxOutputPerUser, by: session.client, key: nil))
    throw CommandError(
      "LIMIT max-output-per-uid is \(settings.maxOutputPerUser) and reached: connections of "
        + "uid \(session.client.uid) do not read what they are sent; CLIENT LIST shows them as omem"
    )
  }

  /// Closes a session if it has too much unread output after `what` was added. If its user has too
  /// much, closes the user's session with the most.
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

  func drop(_ session: Session, _ reason: String) {
    statistics.outputLimitDisconnections += 1
    session.isClosing = true
    session.discardOutput()
    account(session)
    host.close(session.client.connection, .outputLimit(reason))
  }
}
