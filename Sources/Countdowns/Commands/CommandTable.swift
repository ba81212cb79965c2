import Wire

/// All commands, found by name without regard to case.
package struct CommandTable: Sendable {
  package let rows: [CommandSpec]
  private var single: [CommandName: Int] = [:]
  private var families: [CommandName: [CommandName: Int]] = [:]
  /// What was found last: most often it is what is looked for next.
  private var last: (name: CommandName, subcommand: CommandName, index: Int)?

  package init() {
    let commands =
      countdownCommands + hudCommands + timerCommands + guardCommands + scopeCommands
      + navigationCommands + pageCommands + connectionCommands
      + clientCommands + pubSubCommands + eventCommands + serverCommands + backupCommands
      + introspectionCommands
    rows = commands + helpCommands(for: commands)
    for (index, row) in rows.enumerated() {
      let name = CommandName(row.name)!
      if let subcommand = row.subcommand {
        families[name, default: [:]][CommandName(subcommand)!] = index
      } else {
        single[name] = index
      }
    }
  }

  enum Lookup {
    case found(Int)
    case unknown
    /// A family of commands, called without or with an unknown second word.
    case unknownSubcommand
  }

  mutating func find(_ name: Span<UInt8>, _ second: Span<UInt8>?) -> Lookup {
    guard let name = CommandName(name) else { return .unknown }
    let subcommand: CommandName? = if let second { CommandName(second) } else { nil }
    if let last, name == last.name, subcommand == last.subcommand { return .found(last.index) }
    if let family = families[name] {
      if let subcommand, let index = family[subcommand] {
        last = (name, subcommand, index)
        return .found(index)
      }
      // COMMAND and THROTTLE are both: a command, and a family. What is no subcommand can be a key.
      if let index = single[name], second == nil || rows[index].keyPosition > 0 {
        return .found(index)
      }
      return .unknownSubcommand
    }
    return single[name].map { .found($0) } ?? .unknown
  }

  func row(_ fullName: String) -> CommandSpec? {
    rows.first { $0.fullName == fullName.uppercased() }
  }

  /// The commands under `name`, in the order of the table.
  func family(_ name: String) -> [CommandSpec] {
    rows.filter { $0.name == name && $0.subcommand != nil }
  }

  /// Every first word once, in the order of the table.
  var names: [String] {
    var seen: Set<String> = []
    return rows.map(\.name).filter { seen.insert($0).inserted }
  }
}

/// HELP of each family of commands: what else there is in it. Not where what follows the name can
/// be a key, as with THROTTLE.
private func helpCommands(for commands: [CommandSpec]) -> [CommandSpec] {
  var seen = Set(commands.filter { $0.subcommand == nil && $0.keyPosition > 0 }.map(\.name))
  return commands.filter { $0.subcommand != nil && seen.insert($0.name).inserted }.map { first in
    CommandSpec(
      first.name, "HELP", group: first.group, first.flags.intersection(.pubsub),
      "List the commands of \(first.name)."
    ) { call throws(CommandError) in
      call.replyHelp(call.spec.name)
    }
  }
}

private let guardCommands = throttleCommands + onceCommands + gateCommands + debounceCommands

/// A name of up to 16 bytes, in capitals, as two numbers: cheap to hash and compare.
struct CommandName: Hashable, Sendable {
  private var low: UInt64 = 0
  private var high: UInt64 = 0

  /// Nil for what can be no command: too long, or with a NUL, which would be taken for its end.
  init?(_ bytes: Span<UInt8>) {
    guard bytes.count <= 16 else { return nil }
    let words = Self.words(bytes)
    guard !(words.low | ~Self.mask(bytes.count)).hasZeroByte,
      !(words.high | ~Self.mask(bytes.count - 8)).hasZeroByte
    else { return nil }
    low = words.low.uppercased
    high = words.high.uppercased
  }

  /// Of the first so many of eight bytes.
  private static func mask(_ count: Int) -> UInt64 {
    count <= 0 ? 0 : count >= 8 ? .max : (1 &<< UInt64(count &* 8)) &- 1
  }

  @inline(__always)
  private static func words(_ bytes: Span<UInt8>) -> (low: UInt64, high: UInt64) {
    guard bytes.count > 8 else { return (bytes.word(at: 0, count: bytes.count), 0) }
    return (bytes.word(at: 0), bytes.word(at: 8, count: bytes.count &- 8))
  }

  /// In capitals.
  var text: String {
    let bytes = [low, high].flatMap { word in
      (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
    }
    return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
  }

  /// How a `switch` over names finds its case. The pattern is in capitals.
  @inline(__always)
  static func ~= (pattern: StaticString, name: CommandName) -> Bool {
    words(pattern.bytes) == (name.low, name.high)
  }

  static func == (name: CommandName, text: StaticString) -> Bool { text ~= name }

  init?(_ name: String) { self.init(name.utf8.span) }
}

/// Eight bytes at once.
extension UInt64 {
  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highBits = 0x80 * ones

  var hasZeroByte: Bool { (self &- Self.ones) & ~self & Self.highBits != 0 }

  /// ASCII letters in capitals; other bytes as they are.
  var uppercased: UInt64 {
    let sevenBits = self & ~Self.highBits
    // The high bit says, of each byte: a or above; and: above z.
    let atLeastA = sevenBits &+ (0x80 - 0x61) * Self.ones
    let aboveZ = sevenBits &+ (0x7F - 0x7A) * Self.ones
    let isSmall = atLeastA & ~aboveZ & ~self & Self.highBits
    return self &- isSmall >> 2
  }
}
