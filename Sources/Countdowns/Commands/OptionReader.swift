import Wire

/// Reads the words of options and their values one after the other.
struct OptionReader: ~Escapable {
  private let arguments: Arguments
  private let spec: CommandSpec
  private var index: Int
  private var current: CommandName?

  @_lifetime(copy arguments)
  init(_ arguments: Arguments, _ spec: CommandSpec, from index: Int) {
    self.arguments = arguments
    self.spec = spec
    self.index = index
  }

  /// Returns the next word as it is written; nil if there is none.
  @_lifetime(copy self)
  mutating func nextWord() -> Span<UInt8>? {
    guard index < arguments.count else { return nil }
    index += 1
    return arguments[index - 1]
  }

  /// Begins an option. Throws if it is given twice.
  mutating func begin(_ name: CommandName, isFirst: Bool) throws(CommandError) {
    guard isFirst else {
      throw .syntax("\(quoted(arguments[index - 1]).uppercased()) is given twice", spec)
    }
    current = name
  }

  /// Returns the value of the current option.
  @_lifetime(copy self)
  mutating func value() throws(CommandError) -> Span<UInt8> {
    guard index < arguments.count else { throw .syntax("\(name) needs a value", spec) }
    index += 1
    return arguments[index - 1]
  }

  /// The name of the current option, for messages.
  private var name: String { current?.text ?? "" }

  /// Whether the next word is one more value of the same option.
  func has(_ more: Parameter.More) -> Bool {
    index < arguments.count && more.contains(arguments[index])
  }

  /// Returns the error for an option that the command does not have.
  func unknown() -> CommandError {
    .syntax("unknown option '\(quoted(arguments[index - 1]))'", spec)
  }

  // MARK: Values by type

  mutating func duration() throws(CommandError) -> Interval {
    try spec.duration(try value(), name)
  }

  mutating func integer(in range: ClosedRange<Int64>) throws(CommandError) -> Int64 {
    try spec.integer(try value(), name, in: range)
  }

  mutating func choice<T: RawRepresentable & CaseIterable>() throws(CommandError) -> T
  where T.RawValue == String {
    try spec.choice(try value(), name)
  }

  mutating func text(atMost maximum: Int) throws(CommandError) -> [UInt8] {
    try spec.text(try value(), name, atMost: maximum)
  }

  mutating func generation() throws(CommandError) -> Generation {
    Generation(try spec.integer(try value(), "GENERATION", in: 0...Int64.max))
  }
}

/// The two values of an option that switches something.
enum Switch: String, CaseIterable { case on, off }

/// Parses values of arguments. Errors include the command's usage.
extension CommandSpec {
  func duration(
    _ bytes: Span<UInt8>, _ what: @autoclosure () -> String
  ) throws(CommandError) -> Interval {
    guard let interval = DurationText.parse(bytes) else {
      throw .syntax(
        "\(what()) '\(quoted(bytes))' is not a duration: milliseconds, or with ms, s, m, h or "
          + "d, such as 90s or 1h30m; at most 3650d", self)
    }
    return interval
  }

  func integer(
    _ bytes: Span<UInt8>, _ what: @autoclosure () -> String,
    in range: ClosedRange<Int64>
  ) throws(CommandError) -> Int64 {
    guard let value = Int64(decimal: bytes), range.contains(value) else {
      throw .syntax(
        "\(what()) '\(quoted(bytes))' is not an integer from \(range.lowerBound) to "
          + "\(range.upperBound)", self)
    }
    return value
  }

  func choice<T: RawRepresentable & CaseIterable>(
    _ bytes: Span<UInt8>, _ what: @autoclosure () -> String
  ) throws(CommandError) -> T where T.RawValue == String {
    let text = String(decoding: bytes).lowercased()
    if let value = T(rawValue: text) { return value }
    let allowed = T.allCases.map(\.rawValue).joined(separator: ", ")
    throw .syntax("\(what()) '\(quoted(bytes))' is not one of \(allowed)", self)
  }

  func text(
    _ bytes: Span<UInt8>, _ what: @autoclosure () -> String, atMost maximum: Int
  ) throws(CommandError) -> [UInt8] {
    guard bytes.count <= maximum else {
      throw .syntax("\(what()) has \(bytes.count) bytes, at most \(maximum) are allowed", self)
    }
    return Array(bytes)
  }
}

extension Int64 {
  /// Fails if the text is not an integer or is out of range.
  fileprivate init?(decimal text: Span<UInt8>) {
    // Up to 18 digits always fit; other texts are rare.
    guard (1...18).contains(text.count),
      text.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") })
    else {
      self.init(String(decoding: text))
      return
    }
    self = 0
    for index in text.indices { self = self * 10 + Int64(text[index] - UInt8(ascii: "0")) }
  }
}
