import Countdowns
import SeededRandom
import Wire

/// A client of a dispatcher, without a socket, on a clock that the seed moves. A second client
/// receives all events and MONITOR lines.
final class Conversation {
  let host: FuzzHost
  let dispatcher: Dispatcher
  private let client: Session
  private let listener: Session
  private var decoder: RequestDecoder
  /// Decides how much time passes between commands.
  private var random: SeededGenerator
  private let movesTime: Bool
  /// The possible times between commands, in milliseconds.
  private let steps: [Int64]
  private(set) var said: [UInt8] = []
  private(set) var heard: [UInt8] = []

  init(
    seed: UInt64, _ engine: EngineSettings = EngineSettings(), limits: RESPLimits = RESPLimits(),
    movesTime: Bool = true
  ) {
    host = FuzzHost()
    random = SeededGenerator(seed: seed)
    self.movesTime = movesTime
    steps = random.one(of: [
      [0], [0, 1, 100, 250], [0, 0, 0, 300, 1_000, 10_000], [0, 0, 0, 0, 999, 60_000, 86_400_000],
    ])
    decoder = RequestDecoder(limits: limits)
    var settings = Dispatcher.Settings()
    settings.access.daemonUser = 1_000
    dispatcher = Dispatcher(
      engine: Engine(settings: engine, at: host.now), settings: settings, host: host)
    client = Self.session(1, .resp2, at: host.now)
    listener = Self.session(2, .resp3, at: host.now)
    dispatcher.open(client)
    dispatcher.open(listener)
    for command in [["PSUBSCRIBE", "*"], ["MONITOR"]] { execute(command) }
    take()
  }

  private static func session(
    _ id: UInt64, _ version: RESPEncoder.Version, at now: Moment
  ) -> Session {
    let session = Session(
      connection: id, peer: Peer(uid: 1_000, pid: 1), address: "/fuzz:\(id)", at: now)
    session.output.version = version
    return session
  }

  var now: Moment { host.now }
  var bufferedBytes: Int { decoder.bufferedBytes }
  var isOver: Bool { client.isClosing }

  /// Receives bytes from the client, and executes the complete requests in them.
  func receive(_ bytes: [UInt8]) {
    guard !isOver else { return }
    decoder.append(bytes.span.bytes)
    do {
      while !isOver, try decoder.next() {
        decoder.withArguments { _ = dispatcher.execute($0, for: client, at: host.now) }
        while client.next == .part { dispatcher.goOn(client, at: host.now) }
        // After each command, because some commands show the unread output.
        take()
        if movesTime { pass(random.one(of: steps)) }
      }
    } catch {
      dispatcher.refuse(client, error)
    }
    take()
  }

  func pass(_ milliseconds: Int64) {
    host.clock.advance(by: milliseconds * 1_000)
    while !dispatcher.advance(to: host.now, budget: 1_000) {}
    take()
  }

  func takeHeard() -> [UInt8] {
    defer { heard = [] }
    return heard
  }

  private func take() {
    said += client.takeOutput()
    heard += listener.takeOutput()
    for session in [client, listener] { dispatcher.account(session) }
  }

  private func execute(_ words: [String]) {
    var request = RESPEncoder()
    request.array(words.count)
    for word in words { request.bulk(word) }
    var decoder = RequestDecoder()
    decoder.append(request.bytes.span.bytes)
    guard (try? decoder.next()) == true else { return }
    decoder.withArguments { _ = dispatcher.execute($0, for: listener, at: host.now) }
  }
}

/// A command host without a daemon.
final class FuzzHost: CommandHost {
  let clock = VirtualClock(
    Moment(
      boot: Instant(microseconds: 1_000_000), wall: Instant(microseconds: 1_790_000_000_000_000)))
  var now: Moment { clock.now }
  var virtualClock: VirtualClock? { clock }
  var stopwatch: () -> Int64 { { 0 } }
  var configuration: [(name: String, value: String)] { [("limits.max-output", "67108864")] }

  var limits: HostLimits { HostLimits() }
  func figures(_ section: InfoSection, forAdmin: Bool) -> [Figure] { [] }
  func transport(of connection: UInt64) -> TransportFacts {
    TransportFacts(descriptor: 5, path: "/fuzz", unreadInput: 0)
  }
  func close(_ connection: UInt64, _ reason: CloseReason) {}
  func reload(_ done: @escaping (ReloadOutcome) -> Void) { done(.refused(["f:1: wrong"])) }
  func setLogLevel(_ level: String) -> Bool { level == "debug" }
  func restart(
    after pause: Interval, inNextBoot isReboot: Bool, answering connection: UInt64
  ) -> Bool { false }
  func shutDown() {}
  func beginBackup(for connection: UInt64) throws(StateError) -> Int64 { 1 }
  func backupSize(_ id: Int64, of connection: UInt64) throws(StateError) -> Int64? { 3 }
  func readBackup(
    _ id: Int64, of connection: UInt64, at offset: Int64, count: Int
  ) throws(StateError) -> [UInt8] { [1, 2, 3] }
  func endBackup(_ id: Int64, of connection: UInt64) throws(StateError) {}
  func endBackup(of connection: UInt64) {}
}
