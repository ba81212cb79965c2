import Countdowns
import Wire

/// The names of a partition's data on the servers.
struct FleetNames {
  /// Returns the hash tag by which Redis Cluster places a partition.
  static func tag(_ name: String, _ partition: Int) -> String { "\(name).\(partition)" }

  let stream: [UInt8]
  let epoch: [UInt8]
  /// A hash of the partition's records, by `KIND:KEY`.
  let records: [UInt8]
  /// A hash of the ends of leases, by the numbers of hosts.
  let leases: [UInt8]

  init(_ name: String, _ partition: Int) {
    let prefix = Array("cd:{\(Self.tag(name, partition))}:".utf8)
    stream = prefix + "ev".utf8
    epoch = prefix + "epoch".utf8
    records = prefix + "records".utf8
    leases = prefix + "leases".utf8
  }

  /// Returns `KIND:KEY`, the name of an entity among the records and in entries of streams.
  static func text(_ key: FleetKey) -> [UInt8] { key.kind.channelPrefix + key.key }

  /// Parses `KIND:KEY`; returns nil if this names no entity.
  static func key(_ text: some Collection<UInt8>) -> FleetKey? {
    for kind in EntityKind.allCases where text.starts(with: kind.channelPrefix) {
      return FleetKey(kind, Array(text.dropFirst(kind.channelPrefix.count)))
    }
    return nil
  }
}

extension FleetRequest {
  var script: FleetScript {
    switch self {
    case .open: .open
    case .read: .read
    case .entries: .entries
    case .change: .change
    }
  }

  var isChange: Bool { if case .change = self { true } else { false } }

  /// Appends the command of this request.
  func append(_ names: FleetNames, sha: [UInt8], to output: inout [UInt8]) {
    let words =
      switch self {
      case .open(let opening): FleetScript.openFields.words(opening, names)
      case .read(let key): FleetScript.readFields.words(key, names)
      case .entries(let after, let through, let count):
        FleetScript.entriesFields.words((after, through, count), names)
      case .change(let key, let change): FleetScript.changeFields.words((key, change), names)
      }
    RESPRequest.append(["EVALSHA".utf8Array, sha] + words, to: &output)
  }

  /// Decodes the reply, with the server's time. Replicas of a change are counted later, by `WAIT`.
  func answer(_ value: RESPValue) -> (body: FleetAnswer.Body, engine: Int64?) {
    if case .error(let text) = value {
      let refusal = FleetRefusal(text)
      return (.failed(mayBeDone: isChange && !refusal.isCertain, refusal.text), nil)
    }
    return understood(value.elements ?? [])
      ?? (.failed(mayBeDone: isChange, "the server's answer is not understood"), nil)
  }

  /// Returns the server's error: of the request, or of what a heartbeat writes.
  func error(in value: RESPValue) -> String? {
    if let text = value.errorText { return text }
    guard case .open = self, let parts = value.elements, parts.count == Self.openedParts,
      let text = parts[10].string, !text.isEmpty
    else { return nil }
    return text
  }

  /// How many elements the answer has if a partition is opened.
  private static let openedParts = 12

  private func understood(
    _ parts: [RESPValue]
  ) -> (body: FleetAnswer.Body, engine: Int64?)? {
    func time(_ index: Int) -> Int64? { parts[index].int.flatMap(Int64.init(plausible:)) }
    switch self {
    case .open where parts.count == 1:
      return time(0).map { (.closed(.unknown), $0) }
    case .open where parts.count == 2:
      return time(0).map { (.closed(.otherScripts((parts[1].string ?? "").printable)), $0) }
    case .open:
      guard parts.count == Self.openedParts, let engine = time(0), let epoch = parts[1].bytes,
        let number = time(2), let until = time(3), let version = parts[4].bytes,
        let over = parts[6].elements, let next = time(7),
        let keeps = parts[8].int, let blocked = time(9), let newest = parts[11].bytes
      else { return nil }
      var leases = FleetLeases()
      leases.over = Set(over.compactMap { $0.int.flatMap { UInt32(exactly: $0) } })
      leases.next = next > 0 ? next : nil
      (leases.isKeeper, leases.blockedUntil) = (keeps == 1, blocked)
      return (
        .opened(
          epoch: epoch, number: number, refusedUntil: until, atPosition: FleetVersion(version),
          newest: FleetVersion(newest), leases: leases), engine
      )
    case .read:
      guard parts.count == 2, let engine = time(0), let bytes = parts[1].bytes,
        let record = FleetRecord.stored(bytes)
      else { return nil }
      return (.record(record), engine)
    case .entries:
      guard parts.count == 2, let engine = time(0), let values = parts[1].elements else {
        return nil
      }
      return (.entries(values.compactMap(FleetEntry.init)), engine)
    case .change:
      guard parts.count >= 2, let engine = time(1) else { return nil }
      switch parts[0].string {
      case "changed" where parts.count == 3:
        return time(2).map { (.changed(number: $0, problem: nil), engine) }
      case "differs" where parts.count == 3:
        return parts[2].bytes.flatMap { FleetRecord.stored($0) }.map { (.differs($0), engine) }
      case "clock": return (.clock, engine)
      case "lease" where parts.count == 3: return (.lease(isOver: parts[2].int == 1), engine)
      case "epoch": return (.epoch, engine)
      default: return nil
      }
    }
  }
}

extension FleetRecord {
  /// Decodes a stored value: nil if it is damaged, and no record if it is empty.
  static func stored(_ bytes: [UInt8]) -> FleetRecord?? {
    if bytes.isEmpty { return .some(nil) }
    guard bytes.count > FleetVersion.length,
      let version = FleetVersion(bytes.prefix(FleetVersion.length))
    else { return nil }
    return FleetRecord(version, Array(bytes.dropFirst(FleetVersion.length)))
  }
}

extension FleetEntry {
  /// Decodes an entry of a stream; nil if no daemon has written it.
  init?(_ value: RESPValue) {
    guard let parts = value.elements, parts.count == 2, let id = parts[0].bytes,
      id.suffix(2).elementsEqual("-0".utf8), let number = Self.number(id),
      let fields = parts[1].elements
    else { return nil }
    var (key, version, time) = (FleetKey?.none, FleetVersion?.none, Int64?.none)
    var (record, events) = ([UInt8]?.none, [UInt8]?.none)
    for index in stride(from: 0, to: fields.count - 1, by: 2) {
      guard let name = fields[index].bytes, name.count == 1 else { continue }
      let field = fields[index + 1]
      switch Unicode.Scalar(name[0]) {
      case "k": key = field.bytes.flatMap { FleetNames.key($0) }
      case "v": version = field.bytes.flatMap { FleetVersion($0) }
      case "r": record = field.bytes
      case "e": events = field.bytes
      case "t": time = field.int.flatMap(Int64.init(plausible:))
      default: break
      }
    }
    guard let key, let version, let record, let events else { return nil }
    self.init(
      number: number, key: key, version: version, record: record.isEmpty ? nil : record,
      events: events)
    self.time = time
  }

  private static func number(_ id: [UInt8]) -> Int64? {
    Int(String(decoding: id.prefix { $0 != UInt8(ascii: "-") }, as: UTF8.self))
      .flatMap(Int64.init(plausible:))
  }
}

extension Int64 {
  /// Fails for a number of which a few together may overflow: 36,000 years in microseconds.
  fileprivate init?(plausible number: Int) {
    guard number.magnitude < 1 << 60 else { return nil }
    self.init(number)
  }
}

extension String {
  var utf8Array: [UInt8] { Array(utf8) }
}
