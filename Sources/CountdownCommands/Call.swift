import CountdownCore
import CountdownEngine
import RESP

/// One call of a command: who calls, with what, and what time it is.
struct Call {
  let dispatcher: Dispatcher
  let session: Session
  let spec: CommandSpec
  let arguments: Arguments
  let now: Moment

  /// Where the command's own arguments begin: after its one or two names.
  var first: Int { spec.subcommand == nil ? 1 : 2 }

  func bytes(_ index: Int) -> [UInt8] { Array(arguments[index]) }
  func text(_ index: Int) -> String { String(decoding: arguments[index], as: UTF8.self) }

  func problem(_ text: String) -> CommandError { .syntax(text, spec) }

  /// Options from `index` on.
  func options(from index: Int) -> OptionReader { OptionReader(call: self, index: index) }

  // MARK: Values

  /// A key: 1 to 512 bytes.
  func key() throws(CommandError) -> UnsafeRawBufferPointer { try key(arguments[first], "a key") }

  func key(
    _ key: UnsafeRawBufferPointer, _ what: String
  ) throws(CommandError) -> UnsafeRawBufferPointer {
    guard key.count >= 1, key.count <= 512 else {
      throw CommandError("ERR \(what) has 1 to 512 bytes, this one \(key.count)")
    }
    return key
  }

  func duration(_ bytes: UnsafeRawBufferPointer, _ what: String) throws(CommandError) -> Interval {
    guard let interval = DurationText.parse(bytes) else {
      throw problem(
        "\(what) '\(quoted(bytes))' is not a duration: an integer with ms, s, m, h or d, "
          + "0 to 3650d")
    }
    return interval
  }

  func integer(
    _ bytes: UnsafeRawBufferPointer, _ what: String, in range: ClosedRange<Int64>
  ) throws(CommandError) -> Int64 {
    guard let value = Int64(String(decoding: bytes, as: UTF8.self)), range.contains(value) else {
      throw problem(
        "\(what) '\(quoted(bytes))' is not an integer from \(range.lowerBound) to "
          + "\(range.upperBound)")
    }
    return value
  }

  func generation(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> Generation {
    Generation(try integer(bytes, "GENERATION", in: 0...Int64.max))
  }

  func choice<T: RawRepresentable & CaseIterable>(
    _ bytes: UnsafeRawBufferPointer, _ what: String
  ) throws(CommandError) -> T where T.RawValue == String {
    let text = String(decoding: bytes, as: UTF8.self).lowercased()
    if let value = T(rawValue: text) { return value }
    let allowed = T.allCases.map(\.rawValue).joined(separator: ", ")
    throw problem("\(what) '\(quoted(bytes))' is none of \(allowed)")
  }

  func text(
    _ bytes: UnsafeRawBufferPointer, _ what: String, atMost most: Int
  ) throws(CommandError) -> [UInt8] {
    guard bytes.count <= most else {
      throw problem("\(what) has \(bytes.count) bytes, at most \(most) are allowed")
    }
    return Array(bytes)
  }

  /// What a new entity is to go with.
  func owner(_ bytes: UnsafeRawBufferPointer) throws(CommandError) -> Owner {
    if let scope = scope(ownedBy: bytes) {
      return try run { () throws(EngineError) in
        try dispatcher.engine.scopeOwner(scope, at: now)
      }
    }
    switch String(decoding: bytes, as: UTF8.self).lowercased() {
    case "none": return .none
    case "connection": return .connection(session.client.connection)
    default: throw problem("OWNER '\(quoted(bytes))' is none of none, connection, scope:ID")
    }
  }

  /// The ID of `scope:ID`, which can be any bytes.
  private func scope(ownedBy bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    let prefix = Array("scope:".utf8)
    guard bytes.count > prefix.count, bytes.count <= prefix.count + 512,
      zip(bytes, prefix).allSatisfy({ $0 | 0x20 == $1 | 0x20 })
    else { return nil }
    return UnsafeRawBufferPointer(rebasing: bytes[prefix.count...])
  }

  // MARK: Replies

  func ok() { session.output.simple("OK") }

  /// Errors of the engine in words.
  func run<R>(_ body: () throws(EngineError) -> R) throws(CommandError) -> R {
    do {
      return try body()
    } catch {
      if case .limit(let name, let value) = error {
        let key = spec.keyPosition > 0 ? bytes(spec.keyPosition) : nil
        dispatcher.host.limitReached(name, value, by: session.client, key: key)
      }
      throw CommandError(describe(error))
    }
  }

  private func describe(_ error: EngineError) -> String {
    let key = arguments.count > first ? quoted(arguments[first]) : ""
    switch error {
    case .notFound:
      return "NOTFOUND no \(spec.group.noun) '\(key)'"
    case .stale(let now):
      return "STALE '\(key)' has generation \(now.value) by now"
    case .limit(let name, let value):
      return "LIMIT \(name) is \(value) and reached"
    case .isReady:
      return "ERR nothing of '\(key)' counts; COUNTDOWN START or RESEND it first"
    case .noPolicy:
      return "ERR '\(key)' was started without a policy, so it has no codes to be tried; "
        + "COUNTDOWN START it with POLICY"
    case .noCodes(let policy):
      return "ERR the policy '\(policy)' of '\(key)' has no validity, so nothing is known of its "
        + "codes; policies.\(policy).validity in the configuration says how long they are good"
    case .readOnly:
      return "READONLY state cannot be stored now, so nothing is accepted that would be lost; "
        + "INFO persistence says why, OWNER connection needs no storing"
    case .levelNotAllowed(let level, let maximum):
      return "ERR '\(key)' shows no level above \(maximum.rawValue), so not \(level.rawValue); "
        + "hud.max-level or hud.screens in the configuration can allow it"
    case .scope(let problem):
      return describe(problem, key)
    }
  }
}

/// A value in an error message: short, and one line.
func quoted(_ bytes: UnsafeRawBufferPointer) -> String {
  let most = 64
  let text = String(decoding: bytes.prefix(most), as: UTF8.self)
  let clean = String(
    String.UnicodeScalarView(
      text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7F ? "?" : $0 }))
  return bytes.count > most ? clean + "…" : clean
}

/// Goes through options, each at most once.
struct OptionReader {
  let call: Call
  private var index: Int
  /// Most often there is one, which takes no memory.
  private var first: CommandName?
  private var others: Set<CommandName> = []
  private var current = ""

  init(call: Call, index: Int) {
    self.call = call
    self.index = index
  }

  /// The next option's name in capitals; nil when there is none.
  mutating func next() throws(CommandError) -> String? {
    guard index < call.arguments.count else { return nil }
    let word = call.arguments[index]
    index += 1
    guard let name = CommandName(word) else { throw unknown(word) }
    guard name != first, first == nil || others.insert(name).inserted else {
      throw call.problem("\(quoted(word).uppercased()) is given twice")
    }
    if first == nil { first = name }
    current = name.text
    return current
  }

  /// The value of the option that `next` returned.
  mutating func value() throws(CommandError) -> UnsafeRawBufferPointer {
    guard index < call.arguments.count else { throw call.problem("\(current) needs a value") }
    index += 1
    return call.arguments[index - 1]
  }

  /// Whether the next word is a number, and so one more value of the same option.
  var hasNumber: Bool {
    index < call.arguments.count && Int64(call.text(index)) != nil
  }

  /// The error for an option that the command does not have.
  func unknown() -> CommandError { unknown(call.arguments[index - 1]) }

  private func unknown(_ word: UnsafeRawBufferPointer) -> CommandError {
    call.problem("unknown option '\(quoted(word))'")
  }

  // MARK: Values by type

  mutating func duration() throws(CommandError) -> Interval {
    try call.duration(try value(), current)
  }

  mutating func integer(in range: ClosedRange<Int64>) throws(CommandError) -> Int64 {
    try call.integer(try value(), current, in: range)
  }

  mutating func choice<T: RawRepresentable & CaseIterable>() throws(CommandError) -> T
  where T.RawValue == String {
    try call.choice(try value(), current)
  }

  mutating func text(atMost most: Int) throws(CommandError) -> [UInt8] {
    try call.text(try value(), current, atMost: most)
  }

  mutating func generation() throws(CommandError) -> Generation {
    try call.generation(try value())
  }
}

/// Durations as people write them: `1500`, `1500ms`, `90s`, `10m`, `2h`, `30d`.
package enum DurationText {
  /// Nil for what is none, or longer than 3650 days.
  package static func parse(_ text: UnsafeRawBufferPointer) -> Interval? {
    var value: Int64 = 0
    var index = 0
    while index < text.count, let digit = Int64(decimalDigit: text[index]) {
      value = value * 10 + digit
      // Bound before anything can overflow: 3650 days are 12 digits of milliseconds.
      guard index < 15 else { return nil }
      index += 1
    }
    guard index > 0 else { return nil }
    let unit: Int64
    switch (text.count - index, text.count > index ? text[index] | 0x20 : 0) {
    case (0, _): unit = 1_000
    case (2, UInt8(ascii: "m")) where text[index + 1] | 0x20 == UInt8(ascii: "s"): unit = 1_000
    case (1, UInt8(ascii: "s")): unit = 1_000_000
    case (1, UInt8(ascii: "m")): unit = 60_000_000
    case (1, UInt8(ascii: "h")): unit = 3_600_000_000
    case (1, UInt8(ascii: "d")): unit = 86_400_000_000
    default: return nil
    }
    guard value <= Interval.longest.microseconds / unit else { return nil }
    return Interval(microseconds: value * unit)
  }
}

extension Int64 {
  fileprivate init?(decimalDigit byte: UInt8) {
    guard byte >= UInt8(ascii: "0"), byte <= UInt8(ascii: "9") else { return nil }
    self = Int64(byte &- UInt8(ascii: "0"))
  }
}
