import NIOCore

/// The connection for commands, opened on demand.
actor Link {
  private enum State {
    case idle
    case connecting(Task<Result<Connection, CountdownClientError>, Never>)
    case connected(Connection)
    case closed
  }

  private let path: String
  private let name: String?
  private let group: any EventLoopGroup
  private var state = State.idle

  init(path: String, name: String?, group: any EventLoopGroup) {
    self.path = path
    self.name = name
    self.group = group
  }

  /// Returns the open connection, or connects; concurrent callers share one attempt.
  func connection() async throws(CountdownClientError) -> Connection {
    switch state {
    case .closed: throw .clientClosed
    case .connecting(let attempt): return try await attempt.value.get()
    case .connected(let connection) where connection.isActive: return connection
    case .idle, .connected: break
    }
    let attempt = Task { [path, name, group] () -> Result<Connection, CountdownClientError> in
      do throws(CountdownClientError) {
        return .success(try await Connection.open(path: path, group: group, name: name) { _ in })
      } catch {
        return .failure(error)
      }
    }
    state = .connecting(attempt)
    let result = await attempt.value
    if case .closed = state {
      try? result.get().close()
      throw .clientClosed
    }
    state = (try? result.get()).map { .connected($0) } ?? .idle
    return try result.get()
  }

  /// Closes the connection permanently.
  func close() async {
    let last = state
    state = .closed
    guard case .connected(let connection) = last else { return }
    connection.close()
    await connection.closed()
  }
}
