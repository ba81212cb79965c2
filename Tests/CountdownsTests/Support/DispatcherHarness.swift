import Countdowns
import Testing
import Wire

/// A host without connections, which records what the dispatcher asks for.
final class HostStandIn: CommandHost {
  var now = Moment(
    boot: Instant(microseconds: 0), wall: Instant(microseconds: 1_790_000_000_000_000))
  /// The duration of each command by the stopwatch, in microseconds.
  var cost: Int64 = 0
  private var elapsed: Int64 = 0
  var stopwatch: () -> Int64 {
    { [unowned self] in
      defer { elapsed += cost }
      return elapsed
    }
  }
  var configuration: [(name: String, value: String)] = [
    ("limits.max-output", "67108864"), ("countdown.count", "60"),
  ]
  private(set) var closed: [(connection: UInt64, reason: CloseReason)] = []
  private(set) var limitsReached: [String] = []
  /// Reloads under way: none if `reloadOutcome` is set, as they end at once then.
  var reloads: [(ReloadOutcome) -> Void] = []
  var reloadOutcome: ReloadOutcome?
  private(set) var isShutDown = false
  var virtualClock: VirtualClock?

  var limits = HostLimits()
  func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] { [] }
  var transport = TransportFacts(descriptor: 5, path: "/sock", unreadInput: 0)
  func transport(of connection: UInt64) -> TransportFacts { transport }
  func close(_ connection: UInt64, _ reason: CloseReason) { closed.append((connection, reason)) }
  private(set) var foreignChanges: [ForeignChange] = []
  private(set) var fleetNotices: [FleetNotice] = []
  private(set) var memory: FleetMemory?
  func keep(_ memory: FleetMemory) { self.memory = memory }
  private(set) var notices: [String] = []
  func note(_ notice: HostNotice) {
    switch notice {
    case .limitReached(let name, let value, let client, let key):
      let key = key.map { " " + String(decoding: $0, as: UTF8.self) } ?? ""
      limitsReached.append("\(name) \(value) uid \(client.uid)" + key)
    case .foreignChange(let change, _): foreignChanges.append(change)
    case .cleared: break
    case .engine(.blocked(let key, let passes, _)):
      notices.append(
        "blocked \(String(decoding: key, as: UTF8.self)) \(passes.entered) of \(passes.of)")
    case .engine(.dropped(let name, let count)): notices.append("dropped \(name) \(count)")
    case .engine(.forgiven(let key, let withLimits, let uid)):
      notices.append("forgiven \(String(decoding: key, as: UTF8.self)) \(withLimits) uid \(uid)")
    case .fleet(let notice): fleetNotices.append(notice)
    }
  }
  func reload(_ done: @escaping (ReloadOutcome) -> Void) {
    if let reloadOutcome { done(reloadOutcome) } else { reloads.append(done) }
  }
  func setLogLevel(_ level: String) -> Bool { level == "debug" }
  func shutDown() { isShutDown = true }
  /// Restarts with their pauses in microseconds, such as `RESTART 5000000` or `REBOOT 0`.
  private(set) var restarts: [String] = []
  func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering connection: UInt64
  ) -> Bool {
    restarts.append("\(isReboot ? "REBOOT" : "RESTART") \(pause.microseconds)")
    return true
  }
  func beginBackup(for connection: UInt64) throws(StateError) -> Int64 { 1 }
  func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64? { 3 }
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8] { [1, 2, 3] }
  func endBackup(_ id: Int64, of connection: UInt64) throws(StateError) {}
  func endBackup(of connection: UInt64) {}
}

/// A dispatcher with clients, without sockets.
final class DispatcherHarness {
  let host = HostStandIn()
  let dispatcher: Dispatcher
  private(set) var sessions: [Session] = []

  /// The daemon runs as uid 1000.
  init(_ settings: Dispatcher.Settings = .init(), engine: EngineSettings = .init()) {
    var settings = settings
    settings.access.daemonUser = 1_000
    let engine = Engine(settings: engine, at: host.now)
    dispatcher = Dispatcher(engine: engine, settings: settings, host: host)
    _ = open()
  }

  var session: Session { sessions[0] }

  func open(
    _ version: RESPEncoder.Version = .resp2, as peer: Peer = Peer(uid: 1_000, pid: 7)
  ) -> Session {
    let id = UInt64(sessions.count + 1)
    let session = Session(
      connection: id, peer: peer, address: "/sock:\(id)", at: host.now)
    session.output.version = version
    sessions.append(session)
    dispatcher.open(session)
    return session
  }

  /// Runs a command; its reply stays in the session's output.
  func run(_ words: [String], by session: Session? = nil) {
    runFirstPart(words, by: session)
    finish(session)
  }

  /// Runs the remaining parts of the command under way.
  func finish(_ session: Session? = nil) {
    let session = session ?? self.session
    while session.next == .part { dispatcher.goOn(session, at: host.now) }
  }

  /// Runs the first part of a command. Returns how many units of the session's share it took.
  @discardableResult
  func runFirstPart(_ words: [String], by session: Session? = nil) -> Int {
    var request = RESPEncoder()
    request.array(words.count)
    for word in words { request.bulk(word) }
    var decoder = RequestDecoder()
    decoder.append(request.bytes.span.bytes)
    let found = try? decoder.next()
    #expect(found == true)
    var units = 0
    decoder.withArguments {
      units = dispatcher.execute($0, for: session ?? self.session, at: host.now)
    }
    return units
  }

  /// Runs a command, and returns all unread frames: replies and events.
  func frames(_ words: [String], by session: Session? = nil) throws -> [Reply] {
    run(words, by: session)
    return try take(session)
  }

  /// Runs a command, whose words are split at blanks, and returns its one reply.
  @discardableResult
  func say(_ line: String, by session: Session? = nil) throws -> Reply {
    let frames = try frames(line.split(separator: " ").map(String.init), by: session)
    #expect(frames.count == 1, "\(line)")
    return try #require(frames.first)
  }

  func take(_ session: Session? = nil) throws -> [Reply] {
    let session = session ?? self.session
    session.outbound.append(session.takeOutput())
    var bytes: [UInt8] = []
    while let piece = session.outbound.take() { bytes += piece }
    return try Reply.all(bytes)
  }

  func pass(_ milliseconds: Int64) {
    host.now.boot.microseconds += milliseconds * 1_000
    host.now.wall.microseconds += milliseconds * 1_000
    while !dispatcher.advance(to: host.now, budget: 100) {}
  }

  /// Runs a command, and expects an error that contains all `parts`.
  func expectError(
    _ line: String, _ parts: String..., sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    guard case .error(let text) = try say(line) else {
      Issue.record("\(line) is no error", sourceLocation: sourceLocation)
      return
    }
    for part in parts {
      #expect(text.contains(part), "\(text)", sourceLocation: sourceLocation)
    }
  }
}
