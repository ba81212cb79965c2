import Wire

/// The newest slow commands.
struct SlowLog {
  struct Entry {
    let id: Int64
    let unixSeconds: Int64
    let microseconds: Int64
    let arguments: [[UInt8]]
    let address: String
    let name: [UInt8]
  }

  /// The shortest time that makes a command slow, in microseconds.
  private(set) var threshold: Int64
  private(set) var length: Int
  private(set) var entries: [Entry] = []
  private var nextID: Int64 = 0

  init(threshold: Int64, length: Int) {
    self.threshold = threshold
    self.length = length
  }

  mutating func append(
    _ arguments: Arguments, of spec: CommandSpec, took microseconds: Int64, session: Session,
    at now: Moment
  ) {
    guard length > 0 else { return }
    entries.insert(
      Entry(
        id: nextID, unixSeconds: now.wall.microseconds / 1_000_000, microseconds: microseconds,
        arguments: ShownArguments.list(arguments, of: spec, maximum: 32), address: session.address,
        name: session.name),
      at: 0)
    nextID += 1
    if entries.count > length { entries.removeLast() }
  }

  mutating func reload(threshold: Int64, length: Int) {
    self.threshold = threshold
    self.length = length
    entries.removeLast(max(entries.count - length, 0))
  }

  mutating func reset() { entries.removeAll() }
}

/// Arguments as logs show them: shortened, and without the values of secret parameters.
enum ShownArguments {
  static func list(_ arguments: Arguments, of spec: CommandSpec, maximum: Int = .max) -> [[UInt8]] {
    var shown: [[UInt8]] = []
    let roles = spec.parameters.contains(where: \.isSecret) ? spec.roles(of: arguments) : []
    for index in 0..<arguments.count {
      if shown.count == maximum - 1, arguments.count > maximum {
        shown.append(Array("... (\(arguments.count - index) more arguments)".utf8))
        break
      }
      let argument = arguments[index]
      if !roles.isEmpty, roles[index].isSecret {
        shown.append(Array("(redacted)".utf8))
      } else if argument.count > 128 {
        let more = Array("... (\(argument.count - 128) more bytes)".utf8)
        shown.append(Array(argument.extracting(first: 128)) + more)
      } else {
        shown.append(Array(argument))
      }
    }
    return shown
  }
}

/// Formats a command for MONITOR as Redis does, so that its tools can read it.
enum MonitorLine {
  static func text(
    _ arguments: Arguments, of spec: CommandSpec, session: Session, at now: Moment
  ) -> String {
    let seconds = now.wall.microseconds / 1_000_000
    let fraction = String(now.wall.microseconds % 1_000_000 + 1_000_000).dropFirst()
    let words = ShownArguments.list(arguments, of: spec).map { "\"" + escaped($0) + "\"" }
    return "\(seconds).\(fraction) [0 \(session.address)] " + words.joined(separator: " ")
  }

  private static func escaped(_ bytes: [UInt8]) -> String {
    var text = ""
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "\""): text += "\\\""
      case UInt8(ascii: "\\"): text += "\\\\"
      case 0x0A: text += "\\n"
      case 0x0D: text += "\\r"
      case 0x09: text += "\\t"
      case 0x20..<0x7F: text.unicodeScalars.append(UnicodeScalar(byte))
      default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }
    return text
  }
}
