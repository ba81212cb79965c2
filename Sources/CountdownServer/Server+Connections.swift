import Countdowns
import Glibc
import Logging
import Runtime
import Wire

/// Accepts, refuses and closes connections.
extension Server {
  /// Why a connection is refused.
  private struct Refusal: Error { let text: String }

  /// Serves an accepted connection, or refuses it.
  func admit(_ socket: Int32) {
    // A client whose credentials the kernel does not report is not served.
    guard let peer = Peer.read(from: socket) else {
      Glibc.close(socket)
      return
    }
    do throws(Refusal) {
      try check(peer)
    } catch {
      return answer(socket, error)
    }
    let session = Session(
      connection: connections.nextID(), peer: peer, descriptor: socket, address: "unix:\(peer.pid)",
      at: now)
    let connection = Connection(session, server: self)
    guard loop.add(connection, socket, EventLoop.readable) else {
      Glibc.close(socket)
      return
    }
    connections.insert(connection)
    dispatcher.open(session)
  }

  /// Refuses a connection that was accepted with the last descriptor.
  func refuse(_ socket: Int32) {
    connections.refusedAtLimit["descriptors", default: 0] += 1
    logger.log(
      .refusedAtLimit, .warning,
      "connections refused: no more files can be opened; raise LimitNOFILE=",
      [
        "uid": "\(Peer.read(from: socket)?.uid ?? .max)",
        "refused-so-far": "\(connections.rejected)",
      ])
    answer(
      socket, Refusal(text: "LIMIT the daemon can open no more files; LimitNOFILE= is the limit"))
  }

  private func answer(_ socket: Int32, _ refusal: Refusal) {
    var output = RESPEncoder()
    output.error(refusal.text)
    // A new socket has room for this.
    _ = unsafe send(socket, output.bytes, output.bytes.count, Int32(MSG_NOSIGNAL))
    Glibc.close(socket)
  }

  var missingDescriptors: Int { settings.connections.missingDescriptors(of: descriptorLimit) }

  func warnOfMissingDescriptors() {
    guard let problem = settings.connections.problem(of: descriptorLimit) else { return }
    logger.log(.fewDescriptors, .warning, "\(problem)")
  }

  func connection(_ id: UInt64) -> Connection? {
    dispatcher.sessions[id].flatMap(connections.connection(of:))
  }

  private func check(_ peer: Peer) throws(Refusal) {
    do throws(CommandError) {
      try settings.dispatcher.access.checkConnect(peer)
    } catch {
      connections.refusedByRules += 1
      logger.log(
        .refusedByRules, .warning, "connection refused: access.connect does not name its user",
        ["uid": "\(peer.uid)", "pid": "\(peer.pid)"])
      throw Refusal(text: error.text)
    }
    let reserved =
      settings.dispatcher.access.isAdmin(peer) ? settings.connections.reserved : 0
    // The others leave descriptors to the daemon itself.
    let all = settings.connections.fitting(descriptorLimit)
    guard connections.count < all + reserved else { throw refuse("max-connections", all, peer) }
    let ofUser = dispatcher.users[peer.uid]?.connections ?? 0
    guard ofUser < settings.connections.perUser + reserved else {
      throw refuse("max-connections-per-uid", settings.connections.perUser, peer)
    }
  }

  private func refuse(_ limit: String, _ value: Int, _ peer: Peer) -> Refusal {
    connections.refusedAtLimit[limit, default: 0] += 1
    logger.log(
      .refusedAtLimit, .warning, "connections refused: limits.\(limit) is reached",
      ["uid": "\(peer.uid)", "refused-so-far": "\(connections.rejected)"])
    return Refusal(text: "LIMIT \(limit) is \(value) and reached")
  }

  /// Removes a closed connection.
  func leave(_ connection: Connection) {
    connections.remove(connection)
    dispatcher.close(connection.session)
    endBackup(of: connection.session.client.connection)
    // Its descriptor is free for another connection.
    listener?.retry()
    // The batch begins to cancel, in slices, what the connection owned.
    openBatch()
    if ending.phase == .stopping, connections.count == 0 { finishStopping() }
  }

  package func close(_ connection: UInt64, _ reason: CloseReason) {
    var about: Logger.Metadata = ["connection": "\(connection)"]
    if let session = dispatcher.sessions[connection] { about["uid"] = "\(session.client.uid)" }
    switch reason {
    case .killed, .leaseOver:
      logger.notice("connection closed: \(reason.description)", metadata: about)
      self.connection(connection)?.end()
    case .outputLimit:
      logger.log(.outputLimit, .warning, "connection closed: \(reason.description)", about)
      // The client does not read, so its output is freed at once.
      self.connection(connection)?.close()
    }
  }

  package func transport(of connection: UInt64) -> TransportFacts {
    guard let found = self.connection(connection) else {
      return TransportFacts(descriptor: -1, path: "", unreadInput: 0)
    }
    return TransportFacts(
      descriptor: found.descriptor, path: listener?.path ?? "", unreadInput: found.unreadInput)
  }

  package func reload(_ done: @escaping (ReloadOutcome) -> Void) {
    nonisolated(unsafe) let done = done
    hooks.reload(self) { [self] outcome in
      runOnLoop { server in
        unsafe done(outcome)
        server.openBatch()
      }
    }
  }
}
