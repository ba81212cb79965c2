import Countdowns
import Logging

/// Who comes, who is turned away, and who goes.
extension Server {
  /// What a connection that is turned away is told.
  struct Refusal: Error { let text: String }

  /// Takes a new connection in; or says why not.
  func admit(_ handler: ConnectionHandler, _ peer: Peer) -> Result<Session, Refusal> {
    do throws(CommandError) {
      try settings.dispatcher.access.checkConnect(peer)
    } catch {
      rejectedConnections += 1
      logger.log(
        .refusedByRules, .warning, "connection refused: access.connect does not name its user",
        ["uid": "\(peer.uid)", "pid": "\(peer.pid)"])
      return .failure(Refusal(text: error.text))
    }
    guard connections.count < settings.connections else {
      return refuse("max-connections", settings.connections, peer)
    }
    let ofUser = dispatcher.users[peer.uid]?.connections ?? 0
    guard ofUser < settings.connectionsPerUser else {
      return refuse("max-connections-per-uid", settings.connectionsPerUser, peer)
    }
    lastConnection += 1
    let session = Session(
      connection: lastConnection, peer: peer, address: "unix:\(peer.pid)", at: now)
    connections[lastConnection] = handler
    dispatcher.open(session)
    return .success(session)
  }

  private func refuse(_ limit: String, _ value: Int, _ peer: Peer) -> Result<Session, Refusal> {
    rejectedConnections += 1
    logger.log(
      .refusedAtLimit, .warning, "connections refused: limits.\(limit) is reached",
      ["uid": "\(peer.uid)", "refused-so-far": "\(rejectedConnections)"])
    return .failure(Refusal(text: "LIMIT \(limit) is \(value) and reached"))
  }

  func leave(_ session: Session) {
    guard connections.removeValue(forKey: session.client.connection) != nil else { return }
    dispatcher.close(session)
    endBackup(of: session.client.connection)
    // What it owned is cleared up in slices.
    openBatch()
    if isStopping, connections.isEmpty { finishStopping() }
  }

  package func close(_ connection: UInt64, _ reason: CloseReason) {
    var about: Logger.Metadata = ["connection": "\(connection)"]
    if let session = dispatcher.sessions[connection] { about["uid"] = "\(session.client.uid)" }
    switch reason {
    case .killed:
      logger.notice("connection closed: \(reason.description)", metadata: about)
      connections[connection]?.end()
    case .outputLimit:
      logger.log(.outputLimit, .warning, "connection closed: \(reason.description)", about)
      // It does not read, so what it was sent is freed at once.
      connections[connection]?.abort()
    }
  }

  package func limitReached(_ name: String, _ value: Int, by client: Client, key: [UInt8]?) {
    var about: Logger.Metadata = [
      "uid": "\(client.uid)", "connection": "\(client.connection)",
    ]
    if let key { about["key"] = .string(String(decoding: key, as: UTF8.self)) }
    logger.log(
      .refusedAtLimit, .warning, "command refused: limits.\(name) is \(value) and reached", about)
  }

  package func transport(of connection: UInt64) -> TransportFacts {
    connections[connection]?.transport
      ?? TransportFacts(descriptor: -1, path: "", unreadInput: 0)
  }

  package func reload(_ done: @escaping (ReloadOutcome) -> Void) {
    nonisolated(unsafe) let done = done
    hooks.reload { [weak self] outcome in
      self?.hop { server in
        done(outcome)
        server.openBatch()
      }
    }
  }
}
