import Wire

/// All commands, found by name without regard to case.
package struct CommandTable: Sendable {
  /// Made once: it takes a good part of a short start.
  package static let all = CommandTable()

  package let rows: [CommandSpec]
  private var families: [CommandName: Family] = [:]
  /// The command found last, as its words were written: most often it is looked up again next.
  private var last: Last?

  private struct Last {
    let name: CommandName.Words
    let second: CommandName.Words?
    let index: Int
    /// The position of the key to prefetch among the arguments; 0 for none.
    let prefetched: Int
  }

  /// The position of the key in the last command, if that is worth prefetching; else 0.
  var lastPrefetched: Int { last?.prefetched ?? 0 }

  /// The commands that begin with the same word.
  private struct Family {
    /// The command without a second word.
    var single: Int?
    var members: [(subcommand: CommandName, index: Int)] = []

    func find(_ second: Span<UInt8>?) -> Lookup {
      if members.isEmpty || second == nil { return single.map { .found($0) } ?? .unknownSubcommand }
      guard let second else { return .unknownSubcommand }
      // Most commands are written in capitals.
      let words = CommandName.Words(second)
      for member in members where member.subcommand.isWritten(as: words) {
        return .found(member.index)
      }
      if let name = CommandName(second),
        let member = members.first(where: { $0.subcommand == name })
      {
        return .found(member.index)
      }
      return .unknownSubcommand
    }
  }

  private init() {
    let commands =
      EntityKind.commands + connectionCommands + transactionCommands + clientCommands
      + pubSubCommands + eventCommands + serverCommands + clearCommands + clockCommands
      + backupCommands + journalCommands + fleetCommands + introspectionCommands
    rows = commands + helpCommands(for: commands)
    for (index, row) in rows.enumerated() {
      let name = CommandName(row.name)!
      if let subcommand = row.subcommand {
        families[name, default: Family()].members.append((CommandName(subcommand)!, index))
      } else {
        families[name, default: Family()].single = index
      }
    }
  }

  enum Lookup {
    case found(Int)
    case unknown
    /// A family of commands, with an unknown second word or none.
    case unknownSubcommand
  }

  mutating func find(_ name: Span<UInt8>, _ second: Span<UInt8>?) -> Lookup {
    let first = CommandName.Words(name)
    var other: CommandName.Words?
    if let second { other = CommandName.Words(second) }
    if let last, last.name == first, last.second == other { return .found(last.index) }
    guard let name = CommandName(name), let family = families[name] else { return .unknown }
    let found = family.find(second)
    // `Words` has only the beginning of a longer word.
    if case .found(let index) = found, second?.count ?? 0 <= CommandName.maximum {
      let isPrefetched = rows[index].group == .entities(.prefetched)
      last = Last(
        name: first, second: other, index: index,
        prefetched: isPrefetched ? rows[index].keyPosition : 0)
    }
    return found
  }

  func row(_ fullName: String) -> CommandSpec? {
    rows.first { $0.fullName == fullName.uppercased() }
  }

  /// Returns the commands under `name`, in the order of the table.
  func family(_ name: String) -> [CommandSpec] {
    rows.filter { $0.name == name && $0.subcommand != nil }
  }

  /// The commands for administrators: their names, or the first word of a family of them.
  package var adminNames: [String] {
    let admin = rows.filter { $0.flags.contains(.admin) }
    var seen: Set<String> = []
    return admin.map { row in
      let others = family(row.name).filter { $0.subcommand != "HELP" }
      return others.allSatisfy { $0.flags.contains(.admin) } ? row.name : row.fullName
    }.filter { seen.insert($0).inserted }
  }

  /// Every first word once, in the order of the table.
  var names: [String] {
    var seen: Set<String> = []
    return rows.map(\.name).filter { seen.insert($0).inserted }
  }
}

/// Returns the HELP commands, which list the commands of a family.
private func helpCommands(for commands: [CommandSpec]) -> [CommandSpec] {
  var seen: Set<String> = []
  return commands.filter { $0.subcommand != nil && seen.insert($0.name).inserted }.map { first in
    CommandSpec(
      first.name, "HELP", group: first.group, first.flags.intersection(.pubsub),
      "List the commands of \(first.name)."
    ) { call throws(CommandError) in
      call.replyHelp(call.spec.name)
    }
  }
}

/// A name of up to 16 bytes, in capitals, as two numbers: cheap to hash and compare.
struct CommandName: Hashable, Sendable {
  private var low: UInt64 = 0
  private var high: UInt64 = 0

  /// The first 16 bytes of a word as two numbers, and the length of the word.
  struct Words: Equatable {
    fileprivate var low: UInt64
    fileprivate var high: UInt64
    fileprivate var count: Int

    @inline(__always)
    init(_ bytes: Span<UInt8>) {
      count = bytes.count
      low = bytes.word(at: 0, count: min(count, 8))
      high = count > 8 ? bytes.word(at: 8, count: min(count &- 8, 8)) : 0
    }
  }

  /// The longest name, in bytes.
  static let maximum = 16

  /// Fails for a word that is too long, or has a NUL, which would look like the end of the name.
  init?(_ bytes: Span<UInt8>) {
    guard bytes.count <= Self.maximum else { return nil }
    let words = Words(bytes)
    guard !(words.low | ~Self.mask(bytes.count)).hasZeroByte,
      !(words.high | ~Self.mask(bytes.count - 8)).hasZeroByte
    else { return nil }
    low = words.low.uppercased
    high = words.high.uppercased
  }

  /// Returns a mask of the first `count` of eight bytes.
  private static func mask(_ count: Int) -> UInt64 {
    count <= 0 ? 0 : count >= 8 ? .max : (1 &<< UInt64(count &* 8)) &- 1
  }

  /// Returns whether `words` are this name in capitals.
  @inline(__always)
  func isWritten(as words: Words) -> Bool {
    words.low == low && words.high == high && words.count == length
  }

  private var length: Int {
    high == 0
      ? 8 - low.leadingZeroBitCount / 8 : 16 - high.leadingZeroBitCount / 8
  }

  /// The name in capitals.
  var text: String {
    let bytes = [low, high].flatMap { word in
      (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
    }
    return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
  }

  /// Matches a case of a `switch` over names. The pattern is in capitals.
  @inline(__always)
  static func ~= (pattern: StaticString, name: CommandName) -> Bool {
    let words = Words(pattern.bytes)
    return words.low == name.low && words.high == name.high
  }

  static func == (name: CommandName, text: StaticString) -> Bool { text ~= name }

  init?(_ name: String) { self.init(name.utf8.span) }
}

/// Operations on eight bytes at once.
extension UInt64 {
  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highBits = 0x80 * ones

  var hasZeroByte: Bool { (self &- Self.ones) & ~self & Self.highBits != 0 }

  /// Whether all bytes are ASCII that a JSON string contains without escapes.
  var isPlainText: Bool {
    self & Self.highBits == 0 && (self &+ 0x60 * Self.ones) & Self.highBits == Self.highBits
      && !(self ^ UInt64(UInt8(ascii: "\"")) * Self.ones).hasZeroByte
      && !(self ^ UInt64(UInt8(ascii: "\\")) * Self.ones).hasZeroByte
  }

  /// The bytes with ASCII letters in capitals and all others unchanged.
  var uppercased: UInt64 {
    let sevenBits = self & ~Self.highBits
    // The high bit of each byte: whether it is at least `a`, and whether it is above `z`.
    let atLeastA = sevenBits &+ (0x80 - 0x61) * Self.ones
    let aboveZ = sevenBits &+ (0x7F - 0x7A) * Self.ones
    let isSmall = atLeastA & ~aboveZ & ~self & Self.highBits
    return self &- isSmall >> 2
  }
}
