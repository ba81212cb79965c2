import CountdownCore
import CountdownEngine
import RESP

/// The newest commands that took long.
struct SlowLog {
  struct Entry {
    let id: Int64
    let unixSeconds: Int64
    let microseconds: Int64
    let arguments: [[UInt8]]
    let address: String
    let name: [UInt8]
  }

  /// In microseconds.
  private(set) var threshold: Int64
  private(set) var length: Int
  private(set) var entries: [Entry] = []
  private var nextID: Int64 = 0

  init(threshold: Int64, length: Int) {
    self.threshold = threshold
    self.length = length
  }

  mutating func append(
    _ arguments: Arguments, took microseconds: Int64, session: Session, at now: Moment
  ) {
    guard length > 0 else { return }
    entries.insert(
      Entry(
        id: nextID, unixSeconds: now.wall.microseconds / 1_000_000, microseconds: microseconds,
        arguments: ShownArguments.list(arguments, most: 32), address: session.address,
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

/// Arguments as logs may show them: not too long, and without what is nobody's business.
enum ShownArguments {
  private static let secrets: Set<CommandName> = [
    CommandName("META")!, CommandName("PAYLOAD")!, CommandName("TOKEN")!,
  ]

  /// `ONCE DONE key result`
  private static let once = CommandName("ONCE")!
  private static let done = CommandName("DONE")!

  /// `HELLO 3 AUTH user password`: refused, but the password may open something else.
  private static let hello = CommandName("HELLO")!
  private static let auth = CommandName("AUTH")!

  static func list(_ arguments: Arguments, most: Int = .max) -> [[UInt8]] {
    var shown: [[UInt8]] = []
    var secretsToCome = 0
    let isHello = arguments.count > 0 && CommandName(arguments[0]) == hello
    let isResult =
      arguments.count > 3 && CommandName(arguments[0]) == once
      && CommandName(arguments[1]) == done
    for index in 0..<arguments.count {
      if shown.count == most - 1, arguments.count > most {
        shown.append(Array("... (\(arguments.count - index) more arguments)".utf8))
        break
      }
      let argument = arguments[index]
      let isRedacted = secretsToCome > 0 || isResult && index == 3
      if secretsToCome > 0 { secretsToCome -= 1 }
      // Names and keys come first; a key may well be called "meta". A value may be, too: so what
      // follows a word that looks like one of these is hidden, whether that was a value or not.
      if index > 2, CommandName(argument).map(secrets.contains) == true { secretsToCome = 1 }
      if isHello, CommandName(argument) == auth { secretsToCome = 2 }
      if isRedacted {
        shown.append(Array("(redacted)".utf8))
      } else if argument.count > 128 {
        let more = Array("... (\(argument.count - 128) more bytes)".utf8)
        shown.append(Array(argument.prefix(128)) + more)
      } else {
        shown.append(Array(argument))
      }
    }
    return shown
  }
}

/// What MONITOR shows of a command: as Redis does, so that its tools can read it.
enum MonitorLine {
  static func text(_ arguments: Arguments, session: Session, at now: Moment) -> String {
    let seconds = now.wall.microseconds / 1_000_000
    let fraction = String(now.wall.microseconds % 1_000_000 + 1_000_000).dropFirst()
    let words = ShownArguments.list(arguments).map { "\"" + escaped($0) + "\"" }
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
