import CountdownClient
import NIOPosix
import Synchronization

/// Requests to the daemon, with a time limit.
struct Daemon: Sendable {
  let client: Client

  /// Where the connections to the daemon are served.
  static let loop = MultiThreadedEventLoopGroup.singleton.next()

  /// How long a request waits for an answer.
  static let patience = Duration.seconds(3)

  init(socket: String) {
    client = .unconnected(path: socket, name: "countdown-gateway", group: Self.loop)
  }

  /// - Throws: `CountdownClientError`, or `Problem` if the daemon does not answer in time.
  func ask(_ words: [String]) async throws -> RESPValue {
    // The first outcome counts; nothing waits for a cancelled client, which continues to connect.
    let (outcomes, outcome) = AsyncStream.makeStream(of: Result<RESPValue, any Error>.self)
    let asking = Task {
      do {
        outcome.yield(.success(try await client.send(words)))
      } catch {
        outcome.yield(.failure(error))
      }
    }
    let waiting = Task {
      try await Task.sleep(for: Self.patience)
      outcome.yield(.failure(Problem.daemonDown("countdownd does not answer")))
    }
    defer {
      asking.cancel()
      waiting.cancel()
    }
    for await first in outcomes { return try first.get() }
    throw CancellationError()
  }
}

/// A value that is read at most once per second, however many callers ask for it.
actor Cached<Value: Sendable> {
  private static var life: Duration { .seconds(1) }

  private let read: @Sendable () async throws -> Value
  private var current: (task: Task<Value, any Error>, began: ContinuousClock.Instant)?

  init(_ read: @escaping @Sendable () async throws -> Value) { self.read = read }

  var value: Value {
    get async throws {
      if let current, .now - current.began < Self.life { return try await current.task.value }
      let task = Task { try await read() }
      current = (task, .now)
      return try await task.value
    }
  }
}
