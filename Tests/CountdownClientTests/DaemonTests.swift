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

  func start() async throws -> CountdownClient {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: try #require(Self.binary))
    process.arguments = ["--socket", path, "--log-level", "error"]
    process.arguments! += state.map { ["--state-directory", $0] } ?? ["--virtual-time"]
    try process.run()
    self.process.withLock { $0 = process }
    let client = CountdownClient.unconnected(path: path, name: "tests")
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
@Suite(.enabled(if: Daemon.binary != nil), .timeLimit(.minutes(1))) struct DaemonTests {
  @Test func aCountdownTicksUntilItIsReady() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let started = try await client.startCountdown(
      "+45", count: 60, every: .seconds(1), title: "%d s", readyTitle: "again", token: "t")
    #expect(started.accepted == true && started.title == "60 s")
    let repeated = try await client.startCountdown("+45", count: 60, token: "t")
    #expect(repeated.accepted == true && repeated.reason == .repeated)
    let refused = try await client.startCountdown("+45")
    #expect(refused.accepted == false && refused.retryAfter == .seconds(60))

    var events = client.events(channels: ["countdown:+45"]).makeAsyncIterator()
    #expect(try await events.next()?.name == .snapshot)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    let tick = try #require(try await events.next())
    #expect(tick.name == .tick && tick.countdown?.remaining == 59)
    #expect(tick.countdown?.title == "59 s")
    _ = try await client.send("CLOCK", "ADVANCE", "59s")
    var last = tick
    while last.name != .ready { last = try #require(try await events.next()) }
    #expect(last.countdown?.title == "again")
    #expect(last.generation == started.generation)
    #expect(try await client.resendCountdown("+45").accepted == true)
    #expect(try await events.next()?.name == .started)
    #expect(try await client.cancelCountdown("+45"))
    #expect(try await events.next()?.name == .cancelled)
    #expect(try await client.countdown("+45") == nil)
    await #expect {
      try await client.pauseCountdown("+45")
    } throws: { error in
      guard case CountdownClientError.server("NOTFOUND", _) = error else { return false }
      return true
    }
  }

  @Test func ownedEntitiesEndWithTheClient() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let owner = try await CountdownClient.connect(path: daemon.path)
    _ = try await owner.startCountdown("k", owner: .connection)
    #expect(try await client.countdown("k")?.owner?.hasPrefix("connection:") == true)
    await owner.close()
    try await eventually { try await client.countdown("k") == nil }
  }

  @Test func aPausedCountdownKeepsItsTimeAndCanBeRetimed() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    let view = try await client.startCountdown("k", count: 10)
    try await client.pauseCountdown("k", generation: view.generation)
    _ = try await client.send("CLOCK", "ADVANCE", "1h")
    #expect(try await client.countdown("k")?.state == .paused)
    try await client.resumeCountdown("k")
    #expect(try await client.retimeCountdown("k", remaining: .seconds(3)).remaining == 3)
    let page = try await client.countdowns(matching: "k*")
    #expect(page.isLast && page.elements.map(\.key) == ["k"])
    try await client.retimeCountdown("k", remaining: .zero)
    #expect(try await client.countdown("k")?.state == .ready)
  }

  @Test func hudsAndTimersSendTheirEvents() async throws {
    let daemon = Daemon()
    let client = try await daemon.start()
    var events = client.events(channels: ["hud:main"], patterns: ["timer:*"]).makeAsyncIterator()
    let snapshot = try #require(try await events.next())
    #expect(snapshot.name == .snapshot && snapshot.kind == .hud)
    var options = CountdownClient.HUDOptions()
    options.minimum = .seconds(2)
    options.status = "Loading"
    try await client.showHUD("main", options)
    #expect(try await events.next()?.name == .willAppear)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    #expect(try await events.next()?.name == .didAppear)
    #expect(try await client.dismissHUD("main")?.isDismissing == true)
    #expect(try await client.huds().elements.map(\.status) == ["Loading"])
    _ = try await client.send("CLOCK", "ADVANCE", "5s")
    #expect(try await events.next()?.name == .willDisappear)
    let gone = try #require(try await events.next())
    #expect(gone.name == .didDisappear && gone.hud?.end == "dismissed")
    try await client.setTimer("t", after: .seconds(1), payload: Array("p".utf8))
    #expect(try await events.next()?.name == .set)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    let fired = try #require(try await events.next())
    #expect(fired.name == .fired && fired.fields["payload"]?.string == "p")
    #expect(try await client.timer("t") == nil)
  }

  @Test func onReadyIsCalledAfterARestartToo() async throws {
    final class Button: Sendable { let taps = Mutex(0) }
    let daemon = Daemon()
    let client = try await daemon.start()
    let button = Button()
    let handle = client.onReady("k", target: button) { button, _ in
      button.taps.withLock { $0 += 1 }
    }
    _ = try await client.startCountdown("k", count: 1)
    _ = try await client.send("CLOCK", "ADVANCE", "1s")
    try await eventually { button.taps.withLock { $0 } == 1 }
    daemon.stop()
    let second = try await daemon.start()
    // Virtual time begins anew, and generations with it: this one must not be that of before.
    _ = try await second.startCountdown("other", count: 1)
    _ = try await second.startCountdown("k", count: 1)
    _ = try await second.send("CLOCK", "ADVANCE", "1s")
    try await eventually { button.taps.withLock { $0 } == 2 }
    handle.cancel()
  }
}
