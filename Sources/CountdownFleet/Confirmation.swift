import Countdowns
import Wire

/// Finds out whether replicas, and perhaps disks, have the changes of a batch.
///
///     changes, INFO, WAIT, INFO ─► each required replica has acknowledged the first INFO's offset
///                      ▲      │    ─► confirmed
///                      └──────┴─ else again, until 100 ms are over
///
/// `WAIT` counts replicas and does not name them, so `INFO replication` decides with `replicas:
/// all`. The first report comes after the changes, so its offset is at least theirs.
struct Confirmation {
  enum Question { case before, wait, after }
  enum Outcome: Equatable {
    case again([Question])
    case over(problem: String?)
  }

  private static let limitMilliseconds: Int64 = 100
  private static let pauseMilliseconds: Int64 = 10
  /// More replicas than there are: the wait then asks all of them, and lasts for the whole pause.
  private static let moreThanAll = 1_000

  private let settings: FleetSettings
  var replicas: ReplicaSet
  /// How many replicas follow the server.
  private(set) var connected = 0
  private var begun: Int64 = 0
  private var isRepeated = false
  private var offset: Int64?
  private var answer: RESPValue?

  init(_ settings: FleetSettings, _ replicas: ReplicaSet) {
    self.settings = settings
    self.replicas = replicas
  }

  mutating func begin(at boot: Int64) -> [Question] {
    (begun, isRepeated, offset, answer) = (boot, false, nil, nil)
    guard settings.replicas == .all else { return [.wait] }
    return required > 0 || settings.durability == .disk
      ? [.before, .wait, .after] : [.before, .after]
  }

  /// How many replicas must confirm a change.
  private var required: Int {
    if case .count(let count) = settings.replicas { count } else { replicas.present }
  }

  func words(of question: Question) -> [String] {
    guard question == .wait else { return ["INFO", "replication"] }
    let count = "\(isRepeated ? Self.moreThanAll : required)"
    let limit = "\(isRepeated ? Self.pauseMilliseconds : Self.limitMilliseconds)"
    return settings.durability == .disk ? ["WAITAOF", "1", count, limit] : ["WAIT", count, limit]
  }

  /// Notes a report of the primary's replicas. Returns false if it is none.
  mutating func note(_ report: ReplicaSet.Report, at boot: Int64) {
    connected = report.replicas.values.count { $0.isOnline }
    replicas.note(report, at: boot)
  }

  /// Takes the answer to a question. Returns nil if more answers are to come.
  mutating func take(_ value: RESPValue, to question: Question, at boot: Int64) -> Outcome? {
    if question == .wait {
      answer = value
      return settings.replicas == .all ? nil : .over(problem: counted(required))
    }
    guard let report = ReplicaSet.Report(value) else {
      return question == .after ? .over(problem: "its INFO replication is not understood") : nil
    }
    note(report, at: boot)
    if question == .before {
      offset = report.offset
      return nil
    }
    guard let offset else { return .over(problem: "its INFO replication is not understood") }
    let problem = replicas.problem(of: offset, in: report) ?? counted(replicas.count)
    if problem != nil, replicas.missing.isEmpty, replicas.count > 0,
      boot - begun < Self.limitMilliseconds * 1_000
    {
      isRepeated = true
      return .again([.wait, .after])
    }
    return .over(problem: problem)
  }

  /// Returns what the answer to the wait lacks; nil if nothing.
  private func counted(_ count: Int) -> String? {
    switch answer {
    case .integer(let found)? where settings.durability == .memory:
      return found >= count || settings.replicas == .all ? nil : "too few replicas have it"
    case .array(let parts)? where parts.count == 2:
      guard let local = parts[0].int, let found = parts[1].int else { break }
      if local < 1 { return "the server has not stored it on its disk" }
      return found >= count ? nil : "too few replicas have stored it on their disks"
    case nil where settings.replicas == .all && settings.durability == .memory: return nil
    default: break
    }
    let problem = answer?.errorText.map { FleetRefusal($0).text } ?? "no error"
    return "the answer to WAIT is not understood (\(problem))"
  }
}

extension ReplicaSet.Report {
  /// Parses `INFO replication`; nil if it is not that of a primary. Each change waits for this, so
  /// it looks at bytes.
  init?(_ value: RESPValue) {
    guard let text = value.bytes else { return nil }
    var offset: Int?
    var isPrimary = false
    var replicas: [FleetSettings.Node: ReplicaSet.Replica] = [:]
    for line in text.split(whereSeparator: { $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") })
    {
      let name = line.prefix { $0 != UInt8(ascii: ":") }
      let fact = line.dropFirst(name.count + 1)
      if name.elementsEqual("role".utf8) {
        isPrimary = fact.elementsEqual("master".utf8)
      } else if name.elementsEqual("master_repl_offset".utf8) {
        offset = Self.number(fact)
      } else if name.starts(with: "slave".utf8), Self.number(name.dropFirst(5)) != nil,
        let (node, replica) = Self.replica(fact)
      {
        replicas[node] = replica
      }
    }
    guard isPrimary, let offset else { return nil }
    self.init(offset: Int64(offset), replicas: replicas)
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
    Int(String(decoding: digits, as: UTF8.self))
  }

  /// Parses `ip=10.0.0.2,port=6379,state=online,offset=14,lag=1`.
  private static func replica(
    _ text: ArraySlice<UInt8>
  ) -> (FleetSettings.Node, ReplicaSet.Replica)? {
    var (host, port, offset) = (ArraySlice<UInt8>?.none, Int?.none, Int?.none)
    var (silence, isOnline) = (Int64(0), false)
    for fact in text.split(separator: UInt8(ascii: ",")) {
      let name = fact.prefix { $0 != UInt8(ascii: "=") }
      let value = fact.dropFirst(name.count + 1)
      switch String(decoding: name, as: UTF8.self) {
      case "ip": host = value
      case "port": port = number(value)
      case "offset": offset = number(value)
      case "lag": silence = Int64(Int32(clamping: max(number(value) ?? 0, 0))) * 1_000_000
      case "state": isOnline = value.elementsEqual("online".utf8)
      default: break
      }
    }
    guard let host, let port, let offset else { return nil }
    return (
      FleetSettings.Node(host: String(decoding: host, as: UTF8.self), port: port),
      ReplicaSet.Replica(offset: Int64(offset), silence: silence, isOnline: isOnline)
    )
  }
}
