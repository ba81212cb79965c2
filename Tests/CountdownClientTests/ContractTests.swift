import CountdownClient
import Dispatch
import Foundation
import NIOPosix
import Synchronization
import Testing

/// What a call says when it is cancelled, when its reply is lost, and when the daemon hangs: what
/// the tests of all clients' contract (test_client_contract.py) cannot see.
@Suite(.timeLimit(.minutes(5))) struct ContractTests {
  private typealias Failure = CountdownClientError

  /// Answers the first request by closing the connection, and others with `reply`; nil hangs.
  private func losing(
    _ reply: String?, vanishes: Bool = false
  ) async throws -> (StandInServer, Client) {
    let isLost = Mutex(false)
    let its = Mutex<StandInServer?>(nil)
    let server = try await StandInServer { words, peer in
      let wasLost = isLost.withLock { isLost in
        defer { isLost = true }
        return isLost
      }
      if wasLost { return reply }
      if vanishes, let server = its.withLock({ $0 }) {
        server.vanish(peer)
      } else {
        peer.hangUp()
      }
      return nil
    }
    if vanishes { its.withLock { $0 = server } }
    return (server, try await Client.connect(path: server.path))
  }

  // MARK: Cancelled

  private final class Counter: Sendable { let count = Mutex(0) }

  @Test func whatIsCancelledBeforeItIsWrittenIsNotSent() async throws {
    let server = try await StandInServer { _, _ in "+PONG\r\n" }
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let client = try await Client.connect(path: server.path, group: group)
    // The thread that writes is busy when the task is cancelled.
    let begun = Counter()
    let free = DispatchSemaphore(value: 0)
    group.next().execute { free.wait() }
    var tasks: [Task<RESPValue, any Error>] = []
    for _ in 0..<100 {
      tasks.append(
        Task {
          begun.count.withLock { $0 += 1 }
          return try await client.send("CANCELLED")
        })
    }
    try await eventually { begun.count.withLock { $0 } == tasks.count }
    for task in tasks { task.cancel() }
    free.signal()
    for task in tasks { await #expect(throws: CancellationError.self) { try await task.value } }
    #expect(try await client.send("PING").string == "PONG")
    #expect(server.commands == [["PING"]])
    await client.close()
    try await group.shutdownGracefully()
  }

  // MARK: A lost reply

  @Test func aRepetitionThatFailsMayHaveRunTheFirstTime() async throws {
    let lost = Failure.unsure(.connectionClosed)
    // A command that only reads has done nothing.
    var (server, client) = try await losing(nil, vanishes: true)
    await #expect(throws: Failure.daemonNotRunning(path: server.path)) {
      try await client.countdown.get("k")
    }
    for code in ["LOADING", "READONLY", "UNAVAILABLE", "STALE", "LIMIT"] {
      (server, client) = try await losing("-\(code) later\r\n")
      await #expect(throws: lost) { try await client.countdown.start("k", token: "t") }
      #expect(server.commands.count == 2)
    }
    // The daemon would have said so the first time, too.
    (server, client) = try await losing("-NOPERM no\r\n")
    await #expect(throws: Failure.server(code: .notPermitted, message: "no")) {
      try await client.countdown.start("k")
    }
    // The limit is one for both.
    (server, client) = try await losing(nil)
    let limit = Duration.milliseconds(50)
    await #expect(throws: Failure.unsure(.timedOut(limit))) {
      try await client.withTimeout(limit) { try await client.countdown.start("k") }
    }
  }

  // MARK: A daemon that hangs

  @Test func theTimeLimitOfACallIncludesConnecting() async throws {
    let server = try await StandInServer { _, _ in nil }
    server.isMute.withLock { $0 = true }
    let limit = Duration.milliseconds(50)
    let patient = Client.unconnected(path: server.path, connectTimeout: nil)
    await #expect(throws: Failure.timedOut(limit)) {
      try await patient.withTimeout(limit) { try await patient.send("PING") }
    }
    let client = Client.unconnected(path: server.path, connectTimeout: nil, timeout: limit)
    await #expect(throws: Failure.timedOut(limit)) { try await client.pipeline([["PING"]]) }
    #expect(server.commands.isEmpty)
    await patient.close()
    await client.close()
  }

  // MARK: A closed client

  @Test func aClosedClientGivesUpConnecting() async throws {
    let server = try await StandInServer { _, _ in nil }
    server.isMute.withLock { $0 = true }
    let client = Client.unconnected(path: server.path, connectTimeout: nil)
    let waiting = Task { try await client.send("PING") }
    try await eventually { server.arrivals == 1 }
    await client.close()
    await #expect(throws: Failure.clientClosed) { try await waiting.value }
    try await eventually { server.connections.isEmpty }
  }

  // MARK: A shared connection

  @Test func aTransactionFitsIntoAPipeline() async throws {
    let server = try await StandInServer { _, _ in "+OK\r\n" }
    let client = try await Client.connect(path: server.path)
    let commands = [["MULTI"], ["TIMER", "DEL", "t"], ["EXEC"]]
    #expect(try await client.pipeline(commands).count == 3)
    #expect(server.commands == commands)
  }

  // MARK: The environment

  @Test func theEnvironmentNamesTheSocket() throws {
    let before = ProcessInfo.processInfo.environment["COUNTDOWND_SOCKET"]
    defer {
      if let before {
        setenv("COUNTDOWND_SOCKET", before, 1)
      } else {
        unsetenv("COUNTDOWND_SOCKET")
      }
    }
    setenv("COUNTDOWND_SOCKET", "/tmp/mine.sock", 1)
    #expect(Client.unconnected().path == "/tmp/mine.sock")
    setenv("COUNTDOWND_SOCKET", "", 1)
    #expect(Client.unconnected().path == "/run/countdownd/countdownd.sock")
  }

  // MARK: A slow reader

  private final class Screen: Sendable {
    let updates = Mutex<[String]>([])
    let marks = Mutex(0)
  }

  @Test func aTargetThatIsTooSlowReceivesAGapAndASnapshot() async throws {
    let server = try await StandInServer { words, _ in EventTests.subscribed(words) }
    let client = try await Client.connect(path: server.path)
    let (screen, queue) = (Screen(), DispatchQueue(label: "screen"))
    let slow = client.onUpdate(of: CountdownView.self, "k", target: screen, queue: queue) {
      screen, update in
      let text =
        switch update {
        case .event(let event, _): event.name.rawValue
        case .gap: "gap"
        default: "other"
        }
      screen.updates.withLock { $0.append(text) }
    }
    let other = client.onEvent(of: TimerView.self, "mark", target: screen) { screen, _, _ in
      screen.marks.withLock { $0 += 1 }
    }
    try await eventually {
      screen.updates.withLock { $0 } == ["snapshot"] && screen.marks.withLock { $0 } == 1
    }
    queue.suspend()
    let tick = message(
      "countdown:k", #"{"event":"tick","key":"k","generation":1,"state":"counting"}"#)
    let flood =
      String(repeating: tick, count: 2_000) + EventTests.snapshot("timer:mark", state: "running")
    for peer in server.connections { peer.push(flood) }
    // Observers are called in order: all ticks have come.
    try await eventually { screen.marks.withLock { $0 } == 2 }
    queue.resume()
    try await eventually { screen.updates.withLock { $0.count > 1 && $0.last == "snapshot" } }
    let updates = screen.updates.withLock { $0 }
    #expect(updates.count < 1_000 && updates.filter { $0 == "gap" }.count == 1)
    slow.cancel()
    other.cancel()
  }
}
