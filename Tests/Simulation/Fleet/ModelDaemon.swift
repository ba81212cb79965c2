import Countdowns
import Wire

/// A command of a client, and its reply.
final class ClientCommand {
  let key: FleetKey
  let words: [String]
  let daemon: UInt64
  let connection: UInt64
  /// The true time at which it was sent, in microseconds.
  let began: Int64
  fileprivate(set) var ended: Int64?
  fileprivate(set) var reply: RESPValue?

  /// Whether the connection was closed before the reply.
  fileprivate(set) var isCutOff = false

  init(
    _ key: FleetKey, _ words: [String], daemon: UInt64, connection: UInt64, at began: Int64
  ) {
    self.key = key
    self.words = words
    self.daemon = daemon
    self.connection = connection
    self.began = began
  }

  enum Result {
    /// Executed, or refused because of the entity's state.
    case done(RESPValue)
    case notDone
    case unsure
  }

  var result: Result {
    guard let reply else { return .unsure }
    guard case .error(let text) = reply else { return .done(reply) }
    switch text.prefix(while: { $0 != " " }) {
    case "UNAVAILABLE", "LOADING": return .notDone
    case "UNSURE": return .unsure
    default: return .done(reply)
    }
  }

  var text: String {
    let reply = reply.map { "\(plain($0))" } ?? "nothing"
    return "\(began)…\(ended.map(String.init) ?? "") daemon \(daemon): "
      + "\(words.joined(separator: " ")) → \(reply)"
  }
}

/// An event that a subscriber received.
struct HeardEvent: Equatable {
  let name: String
  let generation: Int
  /// The line of JSON without the number that the daemon gave it.
  let facts: String
  let due: Int64?
}

/// A client's connection.
final class ModelSession {
  let session: Session
  /// Commands that were executed, but not answered yet.
  fileprivate var awaited: [ClientCommand] = []
  /// Commands that the daemon has not taken yet.
  fileprivate var waiting: [ClientCommand] = []
  private var decoder = ReplyDecoder()
  private(set) var heard: [FleetKey: [(at: Int64, event: HeardEvent, json: String)]] = [:]
  /// The key of a SUBSCRIBE that is not answered yet.
  fileprivate var subscribing: FleetKey?
  /// Since when all events are received; `Int64.max` until the first snapshot after loading.
  fileprivate(set) var subscriptions: [FleetKey: Int64] = [:]

  init(_ session: Session) { self.session = session }

  var isBusy: Bool { !awaited.isEmpty || !waiting.isEmpty }
  var commandsUnderWay: Int { awaited.count + waiting.count }

  /// - Returns: what is wrong with the bytes; nil if nothing.
  fileprivate func read(_ bytes: [UInt8], at now: Int64) -> String? {
    decoder.feed(bytes)
    do {
      while let value = try decoder.next() {
        if case .push(let parts) = value {
          hear(parts, at: now)
        } else if let key = subscribing, case .error = value {
          subscribing = nil
          subscriptions[key] = nil
        } else if awaited.isEmpty {
          return "a reply to nothing: \(plain(value))"
        } else {
          let command = awaited.removeFirst()
          command.reply = value
          command.ended = now
        }
      }
      return nil
    } catch {
      return "bytes that are no reply: \(error)"
    }
  }

  /// Expects all events from now on for subscriptions that have received a snapshot after loading.
  fileprivate func expectEvents(at now: Int64) {
    for (key, since) in subscriptions where since == .max {
      let isShown = heard[key]?.contains { $0.at == now && $0.event.name == "snapshot" } ?? false
      if isShown { subscriptions[key] = now }
    }
  }

  private func hear(_ parts: [RESPValue], at now: Int64) {
    if parts.first?.string == "subscribe" { subscribing = nil }
    guard parts.count == 3, parts[0].string == "message", let channel = parts[1].string,
      let line = parts[2].string, let colon = channel.firstIndex(of: ":"),
      let kind = EntityKind.allCases.first(where: { "\($0.name)" == channel[..<colon] })
    else { return }
    let key = FleetKey(kind, Array(channel[channel.index(after: colon)...].utf8))
    heard[key, default: []].append((now, HeardEvent(line), line))
  }
}

extension HeardEvent {
  /// Reads a line of JSON, in which the event's own fields come first.
  init(_ line: String) {
    func field(_ name: String) -> Substring? {
      guard let found = line.ranges(of: "\"\(name)\":").first else { return nil }
      return line[found.upperBound...].prefix { $0 != "," && $0 != "}" }
    }
    name = field("event").map { $0.filter { $0 != "\"" } } ?? ""
    generation = field("generation").flatMap { Int($0) } ?? 0
    // Each daemon numbers the events for its clients. What has a position is in a stream.
    let number = line.ranges(of: "\"seq\":").first!
    let rest = line[number.upperBound...].drop { $0 != "," }
    let end = rest.ranges(of: ",\"position\":").first?.lowerBound
    facts = String(line[..<number.lowerBound] + (end.map { rest[..<$0] + "}" } ?? rest))
    due = field("due_unix_ms").flatMap { Int64($0) }
  }
}

/// Returns a reply as text, without its time.
func plain(_ value: RESPValue) -> String {
  switch value {
  case .map(let pairs):
    pairs.filter { $0.key.string != "now_unix_ms" }
      .map { "\(plain($0.key))=\(plain($0.value))" }.joined(separator: " ")
  case .array(let values): "[" + values.map(plain).joined(separator: " ") + "]"
  case .error(let text): "-" + text
  case .null: "null"
  case .integer(let number): "\(number)"
  case .boolean(let value): "\(value)"
  default: value.string ?? "\(value)"
  }
}

/// The logic of a daemon, with a model of its network and its clients.
final class ModelDaemon {
  static let uid: UInt32 = 1_000

  let number: UInt64
  private let world: FleetWorld
  private let bootStart: Int64
  /// How much faster its boot clock runs, in parts per million.
  private let drift: Int64
  private var host: ModelHost!
  private(set) var dispatcher: Dispatcher!
  private(set) var fleet: Fleet!
  private(set) var link: ModelLink!
  private(set) var sessions: [ModelSession] = []
  private var pausedUntil: Int64 = 0
  private(set) var pauses: [(begin: Int64, end: Int64)] = []
  private var wake = 0
  private(set) var isOver = false
  /// Until when it cannot connect to the servers.
  private var cutOffUntil: Int64 = 0
  var isCutOff: Bool { cutOffUntil > world.agenda.now }
  /// The true time at which it ended.
  private(set) var endedAt = Int64.max
  private var lastConnection: UInt64 = 0
  /// When connections were closed, by the daemon or its clients.
  private(set) var closed: [UInt64: Int64] = [:]

  init(
    _ number: UInt64, _ settings: FleetSettings, engine: EngineSettings,
    memory: FleetMemory? = nil, _ world: FleetWorld
  ) {
    self.number = number
    self.world = world
    bootStart = world.number(0...100_000_000_000)
    drift = world.number(-50...50)
    link = ModelLink(self, world)
    host = ModelHost { [unowned self] in now }
    if let memory { host.keep(memory) }
    var access = Dispatcher.Settings()
    access.access.daemonUser = Self.uid
    dispatcher = Dispatcher(
      engine: Engine(settings: engine, at: now), settings: access, host: host)
    fleet = Fleet(settings, daemon: number, memory: memory, dispatcher: dispatcher, link: link)
    fleet.mirror.useLength = 300_000
    dispatcher.fleet = fleet
    for _ in 0..<3 { openSession() }
    for shard in world.shards.indices { link.connect(shard) }
  }

  /// What its host has stored of the fleet.
  var memory: FleetMemory? { host.memory }

  private func openSession() {
    let peer = Peer(uid: Self.uid, pid: 1)
    lastConnection += 1
    let session = Session(connection: lastConnection, peer: peer, address: "", at: now)
    session.output.version = .resp3
    dispatcher.open(session)
    sessions.append(ModelSession(session))
  }

  /// Closes a connection, and opens another one.
  func close(_ session: ModelSession) {
    guard !isPaused, let index = sessions.firstIndex(where: { $0 === session }) else { return }
    closed[session.session.client.connection] = world.agenda.now
    for command in session.awaited + session.waiting { command.isCutOff = true }
    sessions.remove(at: index)
    dispatcher.close(session.session)
    openSession()
    run { _, _ in }
  }

  /// Returns the daemon's own copies of a kind, without asking the servers.
  func list(_ kind: EntityKind) -> [RESPValue] {
    let session = Session(
      connection: 1_000, peer: Peer(uid: Self.uid, pid: 1), address: "", at: now)
    session.output.version = .resp3
    execute(["\(kind.name)".uppercased(), "LIST"], on: dispatcher, for: session, at: now)
    var decoder = ReplyDecoder()
    decoder.feed(session.takeOutput())
    guard let reply = try? decoder.next(), let parts = reply.elements, parts.count == 2 else {
      return []
    }
    return parts[1].elements ?? []
  }

  // MARK: Time

  var now: Moment {
    let time = world.agenda.now
    return Moment(
      boot: Instant(microseconds: bootStart + time + time / 1_000_000 * drift),
      wall: Instant(microseconds: FleetWorld.clockStart + time))
  }

  func pause(for interval: Int64) {
    guard !isPaused else { return }
    pausedUntil = world.agenda.now + interval
    pauses.append((world.agenda.now, pausedUntil))
  }

  /// Ends its connections to the servers for a while.
  func cutOff(for interval: Int64) {
    cutOffUntil = world.agenda.now + interval
    for shard in world.shards.indices { link.connection(shard)?.end() }
  }

  var isPaused: Bool { pausedUntil > world.agenda.now }

  /// Handles one input in a batch, after the end of a pause.
  func run(_ body: @escaping (_ fleet: Fleet, _ boot: Int64) -> Void) {
    guard !isOver else { return }
    guard !isPaused else { return world.agenda.at(pausedUntil) { [self] in run(body) } }
    body(fleet, now.boot.microseconds)
    endBatch()
  }

  func submit(_ words: [String], about key: FleetKey, by session: ModelSession) -> ClientCommand {
    let command = ClientCommand(
      key, words, daemon: number, connection: session.session.client.connection,
      at: world.agenda.now)
    session.waiting.append(command)
    run { _, _ in }
    return command
  }

  func subscribe(_ session: ModelSession, to key: FleetKey) {
    guard !session.isBusy, !isPaused, session.subscribing == nil else { return }
    if fleet.settings.mirror == .used {
      guard session.subscriptions[key] == nil else { return }
      // The record may have to be read first.
      (session.subscribing, session.subscriptions[key]) = (key, .max)
    } else {
      session.subscriptions[key] = fleet.isLoading ? .max : world.agenda.now
    }
    run { [self] _, _ in
      execute(["SUBSCRIBE", key.channel], on: dispatcher, for: session.session, at: now)
    }
  }

  private func endBatch() {
    var hasMore = true
    while hasMore {
      while !dispatcher.advance(to: now, budget: 100) {}
      hasMore = false
      for session in sessions where takeCommand(of: session) { hasMore = true }
    }
    for session in sessions {
      while dispatcher.continueSnapshots(for: session.session, budget: 100, at: now) {}
    }
    fleet.flush()
    for session in sessions {
      if let problem = session.read(session.session.takeOutput(), at: world.agenda.now) {
        world.fail("daemon \(number): \(problem)")
      }
      if !fleet.isLoading { session.expectEvents(at: world.agenda.now) }
    }
    let closing = host.closing
    host.closing = []
    for session in sessions where closing.contains(session.session.client.connection) {
      close(session)
    }
    var touched: [Session] = []
    dispatcher.exchangeTouched(&touched)
    schedule()
  }

  /// - Returns: whether a command could be taken.
  private func takeCommand(of session: ModelSession) -> Bool {
    guard let next = session.session.next, !session.session.isClosing else { return false }
    if next == .part {
      dispatcher.goOn(session.session, at: now)
      return true
    }
    guard !session.waiting.isEmpty else { return false }
    let command = session.waiting.removeFirst()
    session.awaited.append(command)
    execute(command.words, on: dispatcher, for: session.session, at: now)
    return true
  }

  private func schedule() {
    let (boot, wall) = dispatcher.engine.nextDeadline
    let moment = now
    let due = [
      boot, wall.map { moment.boot + ($0 - moment.wall) },
      fleet.nextWake.map(Instant.init(microseconds:)),
    ].compactMap { $0 }.min()
    wake += 1
    guard let due else { return }
    let id = wake
    // Alarms are a little late.
    let late = world.number(0...800)
    let delay = max((due - moment.boot).microseconds, 0)
    world.agenda.after(delay + delay / 1_000_000 * 60 + late) { [self] in
      guard wake == id else { return }
      run { _, _ in }
    }
  }

  /// Ends the daemon without warning.
  func end() {
    isOver = true
    endedAt = world.agenda.now
    link.end()
  }
}

/// Executes a command on a dispatcher.
func execute(
  _ words: [String], on dispatcher: Dispatcher, for session: Session, at now: Moment
) {
  var request: [UInt8] = []
  RESPRequest.append(words.map { Array($0.utf8) }, to: &request)
  var decoder = RequestDecoder()
  decoder.append(request.span.bytes)
  guard (try? decoder.next()) == true else { preconditionFailure("no command: \(words)") }
  decoder.withArguments { _ = dispatcher.execute($0, for: session, at: now) }
}
