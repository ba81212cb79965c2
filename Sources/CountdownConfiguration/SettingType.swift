import Countdowns
import Wire

/// The type of a setting: how its value is read and shown.
struct SettingType<Value: Sendable>: Sendable {
  /// Returns the new value, or nil after reporting why there is none. The old one is nil where
  /// there was none.
  let read: @Sendable (_ old: Value?, ValueReader) -> Value?
  /// The value in a form that can be read back. The suffix is appended to the setting's name.
  let list: @Sendable (Value) -> [(suffix: String, value: String)]
  /// The members of its JSON Schema.
  let schema: [RESPValue.Pair]

  init(
    schema: [RESPValue.Pair], read: @escaping @Sendable (_ old: Value?, ValueReader) -> Value?,
    list: @escaping @Sendable (Value) -> [(suffix: String, value: String)]
  ) {
    self.read = read
    self.list = list
    self.schema = schema
  }

  /// Creates the type of a single value; `parse` returns nil for a text that is not `allowed`.
  init(
    schema: [RESPValue.Pair] = [.of("type", "string")], allowed: String,
    parse: @escaping @Sendable (String) -> Value?, show: @escaping @Sendable (Value) -> String
  ) {
    self.init(
      schema: schema, read: { $1.value(allowed, parse) }, list: { [("", show($0))] })
  }

  /// The type of a setting without a default; nothing is shown while it is absent.
  var optional: SettingType<Value?> {
    SettingType<Value?>(
      schema: schema, read: { old, reader in read(old ?? nil, reader).map(Optional.some) },
      list: { $0.map(list) ?? [] })
  }
}

extension SettingType where Value: FixedWidthInteger & Sendable {
  static func count(_ range: ClosedRange<Int>) -> SettingType {
    SettingType(
      schema: [
        .of("type", "integer"), .of("minimum", range.lowerBound), .of("maximum", range.upperBound),
      ],
      allowed: "an integer from \(range.lowerBound) to \(range.upperBound)",
      parse: { text in
        wholeNumber(text).flatMap { range.contains($0) ? Value(exactly: $0) : nil }
      },
      show: { "\($0)" })
  }
}

extension SettingType where Value == Int {
  static func bytes(_ range: ClosedRange<Int>, orNone: Bool = false) -> SettingType {
    let lowest = range.lowerBound
    let least = lowest > 0 && lowest % (1 << 20) == 0 ? "\(lowest >> 20)MiB" : "\(lowest)"
    return SettingType(
      schema: [.textOrInteger, .of("pattern", "^[0-9]+(KiB|MiB|GiB)?$")],
      allowed: (orNone ? "0, or " : "")
        + "bytes, or an integer with KiB, MiB or GiB, from \(least) to "
        + "\(range.upperBound >> 20)MiB",
      parse: { text in
        withUnit(text, units: [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("", 1)])
          .flatMap { range.contains($0) || orNone && $0 == 0 ? $0 : nil }
      },
      show: { "\($0)" })
  }
}

extension SettingType where Value == Interval {
  /// `lowest` is in milliseconds.
  static func duration(from lowest: Int64 = 0) -> SettingType {
    SettingType(
      schema: .duration,
      allowed: DurationText.allowed + (lowest > 0 ? ", at least \(lowest)ms" : ""),
      parse: { text in
        DurationText.parse(written: text).map(\.millisecondsRoundedUp)
          .flatMap { $0 >= lowest ? .milliseconds($0) : nil }
      },
      show: \.text)
  }
}

extension SettingType where Value == Interval? {
  /// A duration; zero for none.
  static var timeout: SettingType {
    SettingType(
      schema: .duration, allowed: DurationText.allowed,
      parse: { text -> Interval?? in
        guard let read = DurationText.parse(written: text) else { return nil }
        return .some(read == .zero ? nil : .milliseconds(read.millisecondsRoundedUp))
      },
      show: { ($0 ?? .zero).text })
  }
}

extension SettingType where Value == Bool {
  static var noOrYes: SettingType {
    SettingType(
      // What YAML 1.1 and 1.2 make of the words.
      schema: [.of("enum", [.boolean(false), .boolean(true), "no", "yes"])],
      allowed: "one of no, yes", parse: { ["no": false, "yes": true][$0] },
      show: { $0 ? "yes" : "no" })
  }
}

extension SettingType where Value: CaseIterable & RawRepresentable<String> {
  static func choice() -> SettingType {
    let names = Value.allCases.map(\.rawValue)
    return SettingType(
      schema: [.of("enum", names.map { .simpleString($0) })],
      allowed: "one of " + names.joined(separator: ", "),
      parse: { Value(rawValue: $0) },
      show: { $0.rawValue })
  }
}

extension SettingType where Value == UInt32 {
  /// Permissions in octal, quoted or not: YAML's own reading of a plain 0660 is not used.
  static var fileMode: SettingType {
    SettingType(
      schema: [.textOrInteger], allowed: "permissions in octal, from 0000 to 0777",
      parse: { text in
        guard (3...4).contains(text.utf8.count) else { return nil }
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "7")).contains($0) })
        else { return nil }
        return UInt32(text, radix: 8).flatMap { $0 <= 0o777 ? $0 : nil }
      },
      show: { mode in
        let digits = String(mode, radix: 8)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
      })
  }
}

extension SettingType where Value == String {
  static var absolutePath: SettingType {
    SettingType(
      allowed: "an absolute path of at most 1024 bytes",
      parse: { isPath($0, limit: 1024) ? $0 : nil }, show: { $0 })
  }

  /// A path that fits into a socket's address, with a zero byte at the end: unix(7).
  static var socketPath: SettingType {
    SettingType(
      allowed: "an absolute path of at most 107 bytes",
      parse: { isPath($0, limit: 107) ? $0 : nil }, show: { $0 })
  }

  static func isPath(_ text: String, limit: Int) -> Bool {
    text.hasPrefix("/") && text.utf8.count <= limit && !text.utf8.contains(0)
  }
}

extension SettingType where Value == [String] {
  /// Paths of requests. Only paths that begin with /api/ can match, so anything else is a mistake.
  static var paths: SettingType {
    list(of: "a path that begins with /api/, at most 1024 bytes, without spaces and commas", \.self)
    {
      let isPath =
        $0.hasPrefix("/api/") && $0.utf8.count <= 1024
        && $0.unicodeScalars.allSatisfy { !$0.properties.isWhitespace && $0 != "," }
      return isPath ? $0 : nil
    }
  }

  static var words: SettingType {
    list(of: "a word of 1 to 64 letters", \.self) {
      let isWord =
        (1...64).contains($0.utf8.count) && $0.unicodeScalars.allSatisfy(\.properties.isAlphabetic)
      return isWord ? $0 : nil
    }
  }
}

extension SettingType {
  /// Creates the type of a list; `parse` returns nil for an item that is not `allowed`.
  ///
  /// - Parameter advice: what to do about a list without items; nil if it may have none.
  static func list<Item>(
    of allowed: String, ifEmpty advice: String? = nil,
    _ show: @escaping @Sendable (Item) -> String, parse: @escaping @Sendable (String) -> Item?
  ) -> SettingType where Value == [Item] {
    SettingType(
      schema: .list(of: allowed),
      read: { _, reader in
        guard let items = reader.items(allowed: "a list, each item " + allowed) else { return nil }
        if items.isEmpty, let advice { reader.report("empty; " + advice) }
        return items.compactMap { $0.value(allowed, parse) }
      },
      list: { items in
        items.isEmpty && advice != nil ? [] : [("", items.map(show).joined(separator: ","))]
      })
  }

  /// The type of a list that has an item, or is absent.
  static func someOf<Item>(
    _ allowed: String, _ show: @escaping @Sendable (Item) -> String,
    parse: @escaping @Sendable (String) -> Item?
  ) -> SettingType where Value == [Item] {
    list(of: allowed, ifEmpty: "allowed: a list, each item " + allowed, show, parse: parse)
  }
}

/// Parses decimal digits. Refuses signs, separators and leading zeros, which YAML and people read
/// differently.
private func wholeNumber(_ text: Substring) -> Int? {
  let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
  guard text.utf8.allSatisfy(digits.contains), text == "0" || !text.hasPrefix("0") else {
    return nil
  }
  return Int(text)
}

func wholeNumber(_ text: String) -> Int? { wholeNumber(text[...]) }

/// Parses a whole number and the first of `units` that fits, and multiplies; nil beyond 64 bits.
private func withUnit(_ text: String, units: [(name: String, factor: Int)]) -> Int? {
  guard let unit = units.first(where: { text.hasSuffix($0.name) }) else { return nil }
  guard let number = wholeNumber(text.dropLast(unit.name.count)) else { return nil }
  let (product, overflow) = number.multipliedReportingOverflow(by: unit.factor)
  return overflow ? nil : product
}
