import CountdownClient
import Foundation
import Synchronization
import Testing

/// A daemon of its own for each test, whose time stands still until it is told to move.
final class Daemon: Sendable {
  static let binary = ProcessInfo.processInfo.environment["COUNTDOWND"]

  let path = NSTemporaryDirectory() + "cd-\(UInt32.random(in: 0 ... .max)).sock"
  private let process = Mutex<Process?>(nil)
  private let state: String?

  /// - Parameter isDurable: whether its entities survive a restart; then its time is real.
  init(isDurable: Bool = false) { state = isDurable ? path + ".state" : nil }

  func start() async throws -> Client {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: try #require(Self.binary))
    process.arguments = ["--socket", path, "--log-level", "error"]
    process.arguments! += state.map { ["--state-directory", $0] } ?? ["--virtual-time"]
    try process.run()
    self.process.withLock { $0 = process }
    let client = Client.unconnected(path: path, name: "tests")
    try await eventually { (try? await client.send("PING")) != nil }
    return client
  }

  func stop() {
    process.withLock { process in
      process?.terminate()
      process?.waitUntilExit()
      process = nil
    }
  }

  func kill() {
    signal(SIGKILL)
    process.withLock { process in
      process?.waitUntilExit()
      process = nil
    }
  }

  /// Stops the daemon from running until `resume`: it answers nothing, and connections to it wait.
  func suspend() { signal(SIGSTOP) }
  func resume() { signal(SIGCONT) }

  private func signal(_ signal: CInt) {
    _ = process.withLock { $0.map { Foundation.kill($0.processIdentifier, signal) } }
  }

  deinit {
    resume()
    stop()
    if let state { try? FileManager.default.removeItem(atPath: state) }
  }
}

/// Against the daemon itself, where the environment says which one:
///
///     COUNTDOWND=.build/debug/countdownd swift test --filter DaemonTests
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(5))) struct DaemonTests {
  @Test func aCountdownTicksUntilItIsReady() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let started = try await client.countdown.start(
      "+45", count: 60, every: .seconds(1), title: "%d s", readyTitle: "again", token: "t")
    #expect(started.decision == .accepted && started.title == "60 s")
    let repeated = try await client.countdown.start("+45", count: 60, token: "t")
    #expect(repeated.decision == .repeated)
    let refused = try await client.countdown.start("+45")
    #expect(refused.decision == .refused(reason: .cooldown, retryAfter: .seconds(60)))

    var events = client.events(.countdown("+45")).makeAsyncIterator()
    #expect(try await events.next()?.name == .snapshot)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    let tick = try #require(try await events.next())
    #expect(tick.name == .tick && tick.countdown?.stepsLeft == 59)
    #expect(tick.countdown?.title == "59 s")
    _ = try await client.send("CLOCK", "ADVANCE", "59s")
    var last = tick
    while last.name != .ready { last = try #require(try await events.next()) }
    #expect(last.countdown?.title == "again")
    #expect(last.generation == started.generation)
    #expect(try await client.countdown.resend("+45").decision == .accepted)
    #expect(try await events.next()?.name == .started)
    #expect(try await client.countdown.cancel("+45"))
    #expect(try await events.next()?.name == .cancelled)
    #expect(try await client.countdown.get("+45") == nil)
    await #expect {
      try await client.countdown.pause("+45")
    } throws: { error in
      guard case CountdownClientError.server(.notFound, _) = error else { return false }
      return true
    }
  }

  @Test func ownedEntitiesEndWithTheClient() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let owner = try await Client.connect(path: daemon.path)
    _ = try await owner.countdown.start("k", owner: .connection)
    guard case .connectionNumber = try await client.countdown.get("k")?.owner else {
      Issue.record("it has another owner")
      return
    }
    await owner.close()
    try await eventually { try await client.countdown.get("k") == nil }
  }

  @Test func aPausedCountdownKeepsItsTimeAndCanBeRetimed() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let view = try await client.countdown.start("k", count: 10)
    try await client.countdown.pause("k", generation: view.generation)
    _ = try await client.send("CLOCK", "ADVANCE", "1h")
    #expect(try await client.countdown.get("k")?.state == .paused)
    try await client.countdown.resume("k")
    #expect(try await client.countdown.retime("k", remaining: .seconds(3)).stepsLeft == 3)
    let page = try await client.countdown.list(match: "k*")
    #expect(page.isLast && page.elements.map(\.key) == ["k"])
    try await client.countdown.retime("k", remaining: .zero)
    #expect(try await client.countdown.get("k")?.state == .ready)
  }

  @Test func hudsAndTimersSendTheirEvents() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    var events = client.events(.hud("main"), .all(.timer)).makeAsyncIterator()
    let snapshot = try #require(try await events.next())
    #expect(snapshot.name == .snapshot && snapshot.kind == .hud)
    try await client.hud.show("main", status: "Loading", min: .seconds(2))
    #expect(try await events.next()?.name == .willAppear)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    #expect(try await events.next()?.name == .didAppear)
    #expect(try await client.hud.dismiss("main")?.isDismissing == true)
    #expect(try await client.hud.list().elements.map(\.status) == ["Loading"])
    _ = try await client.send("CLOCK", "ADVANCE", "5s")
    #expect(try await events.next()?.name == .willDisappear)
    let gone = try #require(try await events.next())
    #expect(gone.name == .didDisappear && gone.hud?.end == .dismissed)
    try await client.timer.set("t", after: .seconds(1), payload: Array("p".utf8))
    #expect(try await events.next()?.name == .set)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    let fired = try #require(try await events.next())
    #expect(fired.name == .fired && fired.fields["payload"]?.string == "p")
    #expect(try await client.timer.get("t") == nil)
  }

  @Test func onReadyIsCalledAfterARestartToo() async throws {
    final class Button: Sendable { let taps = Mutex(0) }
    let daemon = Daemon()
    let client = try await daemon.start()
    let button = Button()
    let handle = client.onReady("k", target: button) { button, _ in
      button.taps.withLock { $0 += 1 }
    }
    _ = try await client.countdown.start("k", count: 1)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    try await eventually { button.taps.withLock { $0 } == 1 }
    daemon.stop()
    let second = try await daemon.start()
    // Virtual time begins anew, and generations with it: this one must not be that of before.
    _ = try await second.countdown.start("other", count: 1)
    _ = try await second.countdown.start("k", count: 1)
    _ = try await second.send("CLOCK", "ADVANCE", "1s")
    try await eventually { button.taps.withLock { $0 } == 2 }
    handle.cancel()
  }
}
