import CountdownClient
import Foundation
import Synchronization
import Testing

/// A daemon that hangs: calls end with their task or their time limit, before the daemon answers.
/// It runs on only after the call has returned, so each test that passes shows the order.
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(5))) struct HangTests {
  /// Starts a task, lets it wait, cancels it, and expects its cancellation.
  private func expectCancellation(
    location: SourceLocation = #_sourceLocation, _ body: @escaping @Sendable () async throws -> Void
  ) async {
    let begun = Mutex(false)
    let task = Task {
      begun.withLock { $0 = true }
      try await body()
    }
    while !begun.withLock({ $0 }) { await Task.yield() }
    try? await Task.sleep(for: .milliseconds(20))
    task.cancel()
    await #expect(sourceLocation: location) {
      try await task.value
    } throws: {
      $0.isCancellation
    }
  }

  @Test func connectingEndsWithItsTask() async throws {
    let daemon = Daemon()
    _ = try await daemon.start()
    daemon.suspend()
    await expectCancellation { [path = daemon.path] in
      _ = try await Client.connect(path: path, connectTimeout: nil)
    }
    // A task that is cancelled already.
    let task = Task { [path = daemon.path] in
      withUnsafeCurrentTask { $0?.cancel() }
      _ = try await Client.connect(path: path, connectTimeout: nil)
    }
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test func connectingHasATimeLimit() async throws {
    let daemon = Daemon()
    _ = try await daemon.start()
    daemon.suspend()
    let limit = Duration.milliseconds(50)
    await #expect(throws: CountdownClientError.timedOut(limit)) {
      try await Client.connect(path: daemon.path, connectTimeout: limit)
    }
    // Events wait for the daemon.
    let first = Task { [path = daemon.path] in
      let client = Client.unconnected(path: path, connectTimeout: limit)
      var events = client.events(.countdown("k")).makeAsyncIterator()
      return try await events.next()?.name
    }
    try await Task.sleep(for: limit * 3)
    daemon.resume()
    #expect(try await first.value == .snapshot)
  }

  @Test func oneOfManyWhoWaitForAConnectionIsCancelledAlone() async throws {
    let daemon = Daemon()
    _ = try await daemon.start()
    daemon.suspend()
    let client = Client.unconnected(path: daemon.path, connectTimeout: nil, timeout: nil)
    let others = (0..<10).map { _ in Task { try await client.send("PING").string } }
    await expectCancellation { _ = try await client.send("PING") }
    daemon.resume()
    for other in others { #expect(try await other.value == "PONG") }
  }

  @Test func aCancelledCallReturnsBeforeTheReplyAndLaterRepliesAreNotMixedUp() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    daemon.suspend()
    await expectCancellation { _ = try await client.send("ECHO", "first") }
    await expectCancellation { _ = try await client.countdown.start("k") }
    await expectCancellation {
      _ = try await client.pipeline((0..<100).map { ["ECHO", "piped \($0)"] })
    }
    let last = Task { try await client.send("ECHO", "last").string }
    daemon.resume()
    #expect(try await last.value == "last")
    #expect(try await client.send("ECHO", "next").string == "next")
    // The daemon runs what it has received, also for callers that no longer wait.
    #expect(try await client.countdown.get("k") != nil)
  }

  @Test func callsAndPipelinesHaveATimeLimit() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let piping = try await Client.connect(path: daemon.path)
    daemon.suspend()
    let limit = Duration.milliseconds(50)
    await #expect(throws: CountdownClientError.unsure(.timedOut(limit))) {
      try await client.withTimeout(limit) { try await client.send("PING") }
    }
    await #expect(throws: CountdownClientError.unsure(.timedOut(limit))) {
      try await piping.withTimeout(limit) { try await piping.pipeline([["PING"], ["PING"]]) }
    }
    // The connection that did not answer is not used again, and a new one does not answer either.
    await #expect(throws: CountdownClientError.timedOut(limit)) {
      try await client.withTimeout(limit) { try await client.send("PING") }
    }
    let other = Client.unconnected(path: daemon.path, timeout: limit)
    daemon.resume()
    #expect(try await other.withTimeout(nil) { try await other.send("PING").string } == "PONG")
    #expect(try await client.send("ECHO", "a").string == "a")
    daemon.suspend()
    await #expect(throws: CountdownClientError.unsure(.timedOut(limit))) {
      try await other.send("PING")
    }
  }

  @Test func anEventSequenceEndsWithItsTaskInEachOfItsStates() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    // It waits for events.
    let sequence = client.events(.countdown("k"))
    let live = Mutex(false)
    let task = Task {
      for try await _ in sequence { live.withLock { $0 = true } }
    }
    try await eventually { live.withLock { $0 } }
    daemon.suspend()
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    // It connects.
    await expectCancellation { [path = daemon.path] in
      let client = Client.unconnected(path: path, connectTimeout: nil)
      for try await _ in client.events(.countdown("k")) {}
    }
    daemon.resume()
    #expect(try await client.send("PING").string == "PONG")
  }

  @Test func closingEndsCallsThatWait() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    daemon.suspend()
    let call = Task { try await client.send("PING") }
    let connecting = Client.unconnected(path: daemon.path, connectTimeout: nil)
    let first = Task { try await connecting.send("PING") }
    try await Task.sleep(for: .milliseconds(20))
    await client.close()
    await connecting.close()
    await #expect(throws: CountdownClientError.unsure(.clientClosed)) { try await call.value }
    await #expect(throws: CountdownClientError.clientClosed) { try await first.value }
  }
}
