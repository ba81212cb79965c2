import CountdownClient
import Countdowns
import Synchronization
import Wire

/// Plays the commands of a flow on a daemon with virtual time, and records replies and events.
///
/// Time advances from deadline to deadline, so each event is recorded at its own time. Another
/// client observes all channels.
final class FlowPlayer {
  private let flow: Flow
  private let path: String
  /// Clients by name. The one with an empty name sends the commands that name no client.
  private var clients: [String: FlowClient] = [:]
  private var observer: FlowClient?
  /// The time since the flow began, in milliseconds.
  private var elapsed: Int64 = 0
  private(set) var messages: [FlowMessage] = []
  /// The variables that replies have set; their names include the `$`.
  private(set) var variables: [String: String] = [:]

  init(_ flow: Flow, path: String) {
    self.flow = flow
    self.path = path
  }

  func play() async throws {
    try await observe()
    for (index, line) in flow.lines.enumerated() {
      try await pass(to: line.time.millisecondsRoundedUp)
      guard case .command(let words) = line.content else { continue }
      let next = flow.lines[(index + 1)...].first {
        if case .nothing = $0.content { false } else { true }
      }
      try await execute(words, line, reply: next)
    }
  }

  // MARK: Clients

  private func observe() async throws {
    let observer = try await FlowClient.open(path)
    self.observer = observer
    try await observer.subscribe(["PSUBSCRIBE", "*"])
  }

  private func client(_ name: String) async throws -> FlowClient {
    if let client = clients[name], client.isOpen { return client }
    let client = try await FlowClient.open(path)
    clients[name] = client
    return client
  }

  // MARK: Time

  /// Advances the time to `end`, stopping at each deadline.
  private func pass(to end: Int64) async throws {
    while elapsed < end {
      let facts = ServerFacts(info: try await observer!.send(["INFO", "timers"]).string ?? "")
      let step = min(max(Int64(facts.integer("next_deadline_in_ms") ?? .max), 1), end - elapsed)
      try await advance(step)
      elapsed += step
      try await collect()
    }
  }

  private func advance(_ milliseconds: Int64) async throws {
    let reply = try await observer!.send(["CLOCK", "ADVANCE", "\(milliseconds)ms"])
    if case .error(let text) = reply { throw CountdownClientError(reply: text) }
  }

  /// Returns the daemon's wall clock, in microseconds since 1970.
  private func wallClock() async throws -> Int64 {
    let parts = try await observer!.send(["TIME"]).elements ?? []
    return parts.reduce(0) { $0 * 1_000_000 + Int64($1.int ?? 0) }
  }

  // MARK: Commands

  private func execute(_ words: [String], _ line: Flow.Line, reply: Flow.Line?) async throws {
    let words = words.map { variables[$0] ?? $0 }
    let name = words.prefix(2).map { $0.uppercased() }
    note(.command(line: line.number), by: line.client)
    let client = try await client(line.client)
    if Client.answersWithPushes(words[0].utf8) {
      try await client.subscribe(words)
      return try await settle()
    }
    let before = name[0] == "CLOCK" ? try await wallClock() : 0
    let answer = try await client.send(words)
    if case .reply(let text)? = reply?.content { setVariables(text, from: answer) }
    note(.reply(answer), by: line.client)
    if name[0] == "QUIT" { await client.closed() }
    if name == ["CLOCK", "RESTART"] || name == ["CLOCK", "REBOOT"], !answer.isError {
      try await reconnect()
    }
    // CLOCK SET changes only the wall clock, not the time of the flow.
    if name[0] == "CLOCK", name != ["CLOCK", "SET"] {
      elapsed += (try await wallClock() - before) / 1_000
    }
    try await settle()
  }

  private func setVariables(_ text: String, from reply: RESPValue) {
    for (name, value) in FlowMessage.fields(of: text) ?? []
    where Flow.isVariable(value) && variables[value] == nil {
      variables[value] = reply[name].map(FlowMessage.text)
    }
    if Flow.isVariable(text), variables[text] == nil { variables[text] = FlowMessage.text(reply) }
  }

  /// Reconnects after a restart of the daemon, which closes all connections, and has answered.
  private func reconnect() async throws {
    for client in Array(clients.values) + [observer!] { await client.closed() }
    clients = [:]
    try await observe()
  }

  /// Fires everything that is due now, and records the events.
  private func settle() async throws {
    try await advance(0)
    try await collect()
  }

  /// Records the events that clients have received.
  private func collect() async throws {
    let all = [("", observer!)] + clients.sorted { $0.key < $1.key }.filter { $0.key != "" }
    for (name, client) in all where client.isOpen {
      for (channel, fields) in try await client.received() {
        note(.event(channel: channel, fields: fields), by: name)
      }
    }
  }

  private func note(_ content: FlowMessage.Content, by client: String) {
    messages.append(FlowMessage(milliseconds: elapsed, client: client, content: content))
  }
}

/// One connection of a flow.
final class FlowClient: Sendable {
  private let connection: Connection
  private let pushes: Pushes

  private final class Pushes: Sendable {
    let values = Mutex<[RESPValue]>([])
  }

  private init(_ connection: Connection, _ pushes: Pushes) {
    self.connection = connection
    self.pushes = pushes
  }

  static func open(_ path: String) async throws -> FlowClient {
    let pushes = Pushes()
    let connection = try await Connection.open(path: path, name: "countdownctl") { value in
      pushes.values.withLock { $0.append(value) }
    }
    return FlowClient(connection, pushes)
  }

  var isOpen: Bool { connection.isActive }

  func closed() async { await connection.closed() }

  /// Sends a command. Returns error replies instead of throwing them.
  func send(_ words: [String]) async throws -> RESPValue {
    try await connection.send(words.map { Array($0.utf8) })
  }

  /// Sends a command that is answered with pushes, and waits until they have arrived.
  func subscribe(_ words: [String]) async throws {
    connection.sendWithoutReplies([words.map { Array($0.utf8) }])
    _ = try await send(["PING"])
  }

  /// Returns the events since the last call. Earlier events arrive before the reply to PING.
  func received() async throws -> [(channel: String, fields: RESPValue)] {
    _ = try await send(["PING"])
    let values = pushes.values.withLock { values in
      defer { values = [] }
      return values
    }
    return try values.compactMap { value in
      guard case .push(let push) = value, let event = try CountdownEvent(push: push) else {
        return nil
      }
      return (event.channel, event.fields)
    }
  }
}

extension RESPValue {
  fileprivate var isError: Bool { if case .error = self { true } else { false } }
}
