import NIOConcurrencyHelpers
import NIOCore

/// The connection for commands, opened on demand.
final class Link: Sendable {
  private enum State {
    case idle
    case connecting(EventLoopPromise<Connection>)
    case connected(Connection)
    case closed
  }

  private let path: String
  private let name: String?
  private let group: any EventLoopGroup
  private let timeout: Duration?
  private let state = NIOLockedValueBox(State.idle)

  init(path: String, name: String?, group: any EventLoopGroup, timeout: Duration?) {
    self.path = path
    self.name = name
    self.group = group
    self.timeout = timeout
  }

  /// Returns the open connection, or connects; concurrent callers share one attempt, and each may
  /// be cancelled alone.
  func connection() async throws -> Connection {
    let attempt = try state.withLockedValue { state -> EventLoopFuture<Connection> in
      switch state {
      case .closed: throw CountdownClientError.clientClosed
      case .connecting(let attempt): return attempt.futureResult
      case .connected(let connection) where connection.isActive:
        return group.next().makeSucceededFuture(connection)
      case .idle, .connected:
        let attempt = group.next().makePromise(of: Connection.self)
        state = .connecting(attempt)
        Task { await connect(attempt) }
        return attempt.futureResult
      }
    }
    let mine = attempt.eventLoop.makePromise(of: Connection.self)
    attempt.cascade(to: mine)
    return try await withTaskCancellationHandler {
      try await mine.futureResult.get()
    } onCancel: {
      // Only the first result of a promise counts.
      mine.fail(CancellationError())
    }
  }

  private func connect(_ attempt: EventLoopPromise<Connection>) async {
    do {
      let connection = try await Connection.open(
        path: path, group: group, name: name, timeout: timeout
      ) { _ in }
      let isClosed = state.withLockedValue { state in
        if case .closed = state { return true }
        state = .connected(connection)
        return false
      }
      if isClosed { connection.close() }
      attempt.succeed(connection)
    } catch {
      state.withLockedValue { state in
        if case .connecting = state { state = .idle }
      }
      attempt.fail(error)
    }
  }

  /// Closes the connection permanently.
  func close() async {
    let last = state.withLockedValue { state in
      defer { state = .closed }
      return state
    }
    switch last {
    case .connecting(let attempt): attempt.fail(CountdownClientError.clientClosed)
    case .connected(let connection):
      connection.close()
      await connection.closed()
    case .idle, .closed: break
    }
  }
}
