import NIOConcurrencyHelpers
import NIOCore

/// The connection for commands, opened on demand.
final class Link: Sendable {
  private enum State {
    case idle
    case connecting(EventLoopPromise<Connection>, Task<Void, Never>)
    case connected(Connection)
    case closed
  }

  private let path: String
  private let name: String?
  private let group: any EventLoopGroup
  private let timeout: Duration?
  private let state = NIOLockedValueBox(State.idle)
  /// Abandoned connections on which calls still wait for replies.
  private let late = NIOLockedValueBox<[Late]>([])

  /// An abandoned connection. The calls that wait on it keep it alive.
  private struct Late {
    weak var connection: Connection?
  }

  init(path: String, name: String?, group: any EventLoopGroup, timeout: Duration?) {
    self.path = path
    self.name = name
    self.group = group
    self.timeout = timeout
  }

  private enum Found {
    case connection(Connection)
    case attempt(EventLoopFuture<Connection>)
  }

  /// Sends commands as `Connection.send` does. After a timeout the next call connects again, as
  /// this connection may never answer.
  func send(all commands: [[[UInt8]]], _ limit: TimeLimit?) async throws -> [RESPValue] {
    let connection = try await connection(limit)
    do {
      return try await connection.send(all: commands, limit)
    } catch CountdownClientError.unsure(.timedOut(let limit)) {
      giveUp(connection)
      throw CountdownClientError.unsure(.timedOut(limit))
    }
  }

  private func giveUp(_ connection: Connection) {
    // First, so that `close` finds it in one place or the other.
    late.withLockedValue { late in
      late.removeAll { $0.connection == nil || $0.connection === connection }
      late.append(Late(connection: connection))
    }
    state.withLockedValue { state in
      if case .connected(let current) = state, current === connection { state = .idle }
    }
  }

  /// Returns the open connection, or connects; concurrent callers share one attempt, and each may
  /// be cancelled or run out of time alone.
  func connection(_ limit: TimeLimit? = nil) async throws -> Connection {
    let found = try state.withLockedValue { state -> Found in
      switch state {
      case .closed: throw CountdownClientError.clientClosed
      case .connecting(let attempt, _): return .attempt(attempt.futureResult)
      case .connected(let connection) where connection.isActive: return .connection(connection)
      case .idle, .connected:
        let attempt = group.next().makePromise(of: Connection.self)
        state = .connecting(attempt, Task { await connect(attempt) })
        return .attempt(attempt.futureResult)
      }
    }
    switch found {
    case .connection(let connection): return connection
    case .attempt(let attempt): return try await result(of: attempt, limit)
    }
  }

  private func result(
    of attempt: EventLoopFuture<Connection>, _ limit: TimeLimit?
  ) async throws -> Connection {
    let mine = attempt.eventLoop.makePromise(of: Connection.self)
    attempt.cascade(to: mine)
    let timer = limit.map { limit in
      attempt.eventLoop.scheduleTask(in: limit.left) {
        mine.fail(CountdownClientError.timedOut(limit.duration))
      }
    }
    defer { timer?.cancel() }
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
    case .connecting(let attempt, let task):
      attempt.fail(CountdownClientError.clientClosed)
      task.cancel()
    case .connected(let connection):
      connection.close(.unsure(.clientClosed))
      await connection.closed()
    case .idle, .closed: break
    }
    for connection in late.withLockedValue({ $0.compactMap(\.connection) }) {
      connection.close(.unsure(.clientClosed))
      await connection.closed()
    }
  }
}
