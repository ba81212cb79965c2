import CountdownClient
import Foundation
import Synchronization
import Testing

/// What ends with a block of work, against the daemon itself.
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(5))) struct WithTests {
  private struct Mistake: Error {}

  /// The number of holds: a HUD without any may still be fading out.
  private func holds(_ client: Client) async throws -> Int {
    let reply = try await client.send("HUD", "GET", "main")
    return reply["holds"]?.elements?.count ?? 0
  }

  @Test func aHUDIsHeldWhileTheWorkRuns() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let maximum = try await client.withHUD("main") {
      try await client.withHUD("main") { try await holds(client) }
    }
    #expect(maximum == 2)
    #expect(try await holds(client) == 0)
    await #expect(throws: Mistake.self) {
      try await client.withHUD("main") {
        #expect(try await holds(client) == 1)
        throw Mistake()
      }
    }
    #expect(try await holds(client) == 0)
  }

  @Test func aHUDEndsEvenIfItsTaskIsCancelledOrTheDaemonHangs() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let hasBegun = Mutex(false)
    let task = Task {
      try await client.withHUD("main") {
        hasBegun.withLock { $0 = true }
        try await Task.sleep(for: .seconds(3_600))
      }
    }
    try await eventually { hasBegun.withLock { $0 } }
    daemon.suspend()
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    daemon.resume()
    try await eventually { try await holds(client) == 0 }
  }

  @Test func aScopeClosesWithItsWork() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.withScope("page") { scope in
      #expect(try await client.scope.get("page")?.generation == scope.generation)
      try await client.timer.set("t", after: .seconds(9), owner: .scope(scope.key))
    }
    #expect(try await client.scope.get("page") == nil)
    try await eventually { try await client.timer.get("t") == nil }
  }

  @Test func aScopeIsOpenedAgainWhileItsWorkRuns() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    try await client.withScope("page") { _ in
      daemon.stop()
      let second = try await daemon.start()
      try await eventually { try await second.scope.get("page") != nil }
      await second.close()
    }
    #expect(try await client.scope.get("page") == nil)
    // It stays closed.
    try await client.withScope("other") { _ in
      let isClosed = try await client.scope.close("other")
      #expect(isClosed)
    }
    #expect(try await client.scope.get("other") == nil)
  }

  @Test func workRunsOnceAndItsResultIsStored() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let runs = Mutex(0)
    let result: [UInt8] = [0, 255, 7]
    // An error gives the key back.
    await #expect(throws: Mistake.self) {
      _ = try await client.withOnce("order", ttl: .seconds(60)) { throw Mistake() }
    }
    for round in 1...3 {
      let outcome = try await client.withOnce("order", ttl: .seconds(60)) {
        runs.withLock { $0 += 1 }
        // Who asks meanwhile learns that it runs.
        let other = try await client.withOnce("order", ttl: .seconds(60)) { [1] }
        #expect(other == .running)
        return result
      }
      #expect(outcome == (round == 1 ? .ran(result) : .known(result)))
    }
    #expect(runs.withLock { $0 } == 1)
  }

  @Test func anActionRunsIfItsSessionIsOpen() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    #expect(try await client.withGate("s", action: "buy") { 1 } == nil)
    #expect(try await client.gate.get("s")?.action == "buy")
    try await client.gate.open("s")
    #expect(try await client.withGate("s", action: "buy") { 1 } == 1)
  }
}
