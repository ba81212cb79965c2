import NIOCore

/// A command for numbered keys, encoded once, so that sending it only copies bytes.
struct KeyCommand: Sendable {
  /// When a started countdown becomes ready.
  enum Due: Sendable, Equatable {
    /// As configured in the daemon.
    case asConfigured
    /// After this many steps of this many milliseconds.
    case steps(Int, everyMS: Int)
    /// All at this moment of the monotonic clock, rounded up to whole milliseconds.
    case at(NIODeadline)
    /// Each within this many milliseconds, at a moment that depends on the key only.
    case within(milliseconds: Int)
  }

  /// `start`, `get` or `cancel`.
  let name: String
  private let due: Due?
  /// The bytes before the number of the key.
  private let head: [UInt8]
  /// The bytes after the number of the key; milliseconds computed when sending follow them.
  private let tail: [UInt8]

  static let keyDigits = 9
  /// Keys are numbered from 0.
  static let maximumKeys = 1_000_000_000

  static func start(prefix: String, _ due: Due) -> KeyCommand {
    let options: [String] =
      switch due {
      case .asConfigured: []
      case .steps(let count, let everyMS): ["COUNT", "\(count)", "EVERY", "\(everyMS)"]
      case .at, .within: ["COUNT", "1", "EVERY"]
      }
    return KeyCommand("START", prefix, options, due)
  }

  static func get(prefix: String) -> KeyCommand { KeyCommand("GET", prefix, [], nil) }

  static func cancel(prefix: String) -> KeyCommand { KeyCommand("CANCEL", prefix, [], nil) }

  private init(_ word: String, _ prefix: String, _ options: [String], _ due: Due?) {
    name = word.lowercased()
    self.due = due
    let words = 3 + options.count + (options.last == "EVERY" ? 1 : 0)
    let keyLength = prefix.utf8.count + Self.keyDigits
    head = Array(
      "*\(words)\r\n\(Self.bulk("COUNTDOWN"))\(Self.bulk(word))$\(keyLength)\r\n\(prefix)".utf8)
    tail = Array("\r\n\(options.map(Self.bulk).joined())".utf8)
  }

  private static func bulk(_ word: String) -> String { "$\(word.utf8.count)\r\n\(word)\r\n" }

  /// Appends the command for a key, to be sent now.
  func write(key: Int, now: NIODeadline, to buffer: inout ByteBuffer) {
    buffer.writeBytes(head)
    Self.write(key, digits: Self.keyDigits, to: &buffer)
    buffer.writeBytes(tail)
    switch due {
    case nil, .asConfigured, .steps: break
    case .at(let moment):
      // Rounded up, as the daemon rounds.
      let left = (moment - now).nanoseconds
      writeMilliseconds(max(1, Int((left + 999_999) / 1_000_000)), to: &buffer)
    case .within(let milliseconds):
      writeMilliseconds(1 + Self.scattered(key) % max(1, milliseconds), to: &buffer)
    }
  }

  private func writeMilliseconds(_ value: Int, to buffer: inout ByteBuffer) {
    var digits = 1
    var bound = 10
    while value >= bound {
      digits += 1
      bound *= 10
    }
    buffer.writeStaticString("$")
    Self.write(digits, digits: digits < 10 ? 1 : 2, to: &buffer)
    buffer.writeStaticString("\r\n")
    Self.write(value, digits: digits, to: &buffer)
    buffer.writeStaticString("\r\n")
  }

  private static func write(_ value: Int, digits: Int, to buffer: inout ByteBuffer) {
    var unit = 1
    for _ in 1..<digits { unit *= 10 }
    while unit > 0 {
      buffer.writeInteger(UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: value / unit % 10))
      unit /= 10
    }
  }

  /// Maps neighbouring keys to distant numbers. Source: Steele, Lea, Flood: Fast Splittable
  /// Pseudorandom Number Generators, 2014 (the finalizer of SplitMix64).
  private static func scattered(_ key: Int) -> Int {
    var value = UInt64(truncatingIfNeeded: key) &+ 0x9E37_79B9_7F4A_7C15
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return Int((value ^ (value >> 31)) >> 1)
  }
}
