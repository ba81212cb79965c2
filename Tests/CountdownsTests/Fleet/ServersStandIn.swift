import Countdowns
import Simulation
import Testing
import Wire

/// One server that all daemons of a test share: its data, its clock and what goes wrong. It answers
/// at once unless it is silent.
@dynamicMemberLookup
final class ServersStandIn {
  /// The server's time, in microseconds since 1970.
  var time: Int64 = 1_790_000_000_000_000
  private var partition = ModelPartition(ModelEpoch(begunAt: 1_790_000_000_000_000))
  /// The version of its scripts, if it is another one.
  var otherScripts: String?
  /// Why changes are not confirmed; nil if they are.
  var problem: String?
  var policies: [UInt8] = []
  /// Why the server refuses changes; nil if it does not.
  var refusal: FleetRefusal?
  /// Whether the server ignores all requests.
  var isSilent = false
  /// After so many changes it is silent.
  var changesLeft = Int.max

  subscript<Value>(dynamicMember path: WritableKeyPath<ModelPartition, Value>) -> Value {
    get { partition[keyPath: path] }
    set { partition[keyPath: path] = newValue }
  }

  var number: Int64 {
    get { partition.epoch?.number ?? 0 }
    set { partition.epoch?.number = newValue }
  }
  var entries: [FleetEntry] {
    get { partition.stream }
    set { partition.stream = newValue }
  }

  func answer(_ request: FleetRequest) -> FleetAnswer.Body {
    if case .open = request, let otherScripts { return .closed(.otherScripts(otherScripts)) }
    if case .change = request, let refusal { return .failed(mayBeDone: false, refusal.text) }
    let (body, effects) = partition.answer(request, at: time)
    for effect in effects { partition.apply(effect) }
    guard case .changed(let number, _) = body else { return body }
    changesLeft -= 1
    if changesLeft == 0 { isSilent = true }
    return .changed(number: number, problem: problem)
  }
}

/// A daemon of a fleet, and its link to the server.
final class FleetCounter: FleetLink {
  let counter: DispatcherHarness
  let servers: ServersStandIn
  private(set) var fleet: Fleet! = nil
  private var sent: [(request: FleetRequest, id: UInt64, sent: Int64)] = []
  private var followed: [Int: Int64] = [:]
  /// How many records were loaded.
  private(set) var loaded = 0
  /// Called once, when the next request was executed, before its answer arrives.
  var onTheWay: (() -> Void)?
  /// Whether the connection is closed once the next request was executed, before its answer.
  var losesAnswer = false
  /// Called once, when the next records to load were read, before they arrive.
  var whileLoading: (() -> Void)?
  /// Whether the connection is lost, and made again, before the next records to load arrive.
  var losesLoading = false
  private var toLoad: [Int: [FleetKey]?] = [:]

  init(
    _ servers: ServersStandIn, daemon: UInt64, _ settings: FleetSettings = FleetSettings(),
    engine: EngineSettings = .init(), configuration: [(name: String, value: String)] = [],
    memory: FleetMemory? = nil
  ) {
    self.servers = servers
    counter = DispatcherHarness(engine: engine)
    counter.host.configuration = configuration
    counter.host.now.wall.microseconds = servers.time
    var settings = settings
    settings.partitions = 1
    fleet = Fleet(
      settings, daemon: daemon, memory: memory, dispatcher: counter.dispatcher, link: self)
    // Time stands still while a command runs.
    fleet.turns.length = 0
    counter.dispatcher.fleet = fleet
    fleet.connected([0], at: boot)
    settle()
  }

  var boot: Int64 { counter.host.now.boot.microseconds }

  func send(_ request: FleetRequest, id: UInt64, to partition: Int) {
    sent.append((request, id, boot))
  }

  func flush() {}
  func follow(_ partition: Int, after number: Int64) { followed[partition] = number }
  func load(_ partition: Int, only keys: [FleetKey]?) { toLoad[partition] = .some(keys) }

  /// Answers all requests, does the requested loads, and reads new entries.
  func settle() {
    repeat { answer() } while !sent.isEmpty && !servers.isSilent
  }

  private func answer() {
    fleet.flush()
    while !sent.isEmpty, !servers.isSilent {
      let (request, id, time) = sent.removeFirst()
      var answer = FleetAnswer(servers.answer(request), engine: servers.time, sent: time)
      if case .read = request {} else { answer.refusal = servers.refusal }
      if let happens = onTheWay {
        onTheWay = nil
        happens()
      }
      if losesAnswer {
        losesAnswer = false
        answer.body = .failed(mayBeDone: true, "the connection was closed")
      }
      if case .open(let opening) = request {
        if opening.setsPolicies { servers.policies = opening.policies }
        if !opening.policies.isEmpty { answer.policies = servers.policies }
      }
      fleet.receive(answer, to: id, at: boot)
      fleet.flush()
    }
    let loads = toLoad
    toLoad = [:]
    for (partition, keys) in loads {
      loaded += keys.map(\.count) ?? servers.records.count
      let found = servers.records.filter { keys?.contains($0.key) ?? true }
      if let happens = whileLoading {
        whileLoading = nil
        happens()
      }
      if losesLoading {
        losesLoading = false
        fleet.disconnected([partition])
        fleet.connected([partition], at: boot)
        continue
      }
      fleet.load(found.map { ($0.key, $0.value) }, of: partition)
      fleet.endLoading(partition)
    }
    read()
  }

  func read() {
    guard !servers.isSilent, let after = followed[0] else { return }
    let new = servers.entries.filter { $0.number > after }
    guard let last = new.last else { return }
    followed[0] = last.number
    fleet.receive(new, of: 0)
  }

  var info: String { (try? say("INFO fleet")).map { "\($0)" } ?? "" }

  /// Runs a command, and returns its reply after the servers have answered.
  @discardableResult
  func say(_ line: String, by session: Session? = nil) throws -> Reply {
    counter.run(line.split(separator: " ").map(String.init), by: session)
    settle()
    return try #require(try counter.take(session).first, "\(line)")
  }
}

/// Advances the clocks of the servers and of the daemons.
func pass(_ milliseconds: Int64, _ servers: ServersStandIn, _ daemons: FleetCounter...) {
  servers.time += milliseconds * 1_000
  for daemon in daemons {
    daemon.counter.pass(milliseconds)
    daemon.settle()
  }
  for daemon in daemons { daemon.read() }
}
