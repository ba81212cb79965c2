import CountdownClient
import Wire

extension RESPValue {
  static func text(_ text: String) -> RESPValue { .bulkString(Array(text.utf8)) }

  /// Returns an object for `json`; nil becomes null.
  static func object(_ members: KeyValuePairs<String, (any JSONConvertible)?>) -> RESPValue {
    object(members.map { ($0.key, $0.value) })
  }

  static func object(_ members: [(name: String, value: (any JSONConvertible)?)]) -> RESPValue {
    .map(members.map { .init(.text($0.name), $0.value?.asReply ?? .null) })
  }
}

/// A value that `RESPValue.object` can hold.
protocol JSONConvertible: Sendable {
  var asReply: RESPValue { get }
}

extension RESPValue: JSONConvertible {
  var asReply: RESPValue { self }
}

extension String: JSONConvertible {
  var asReply: RESPValue { .text(self) }
}

extension Int: JSONConvertible {
  var asReply: RESPValue { .integer(self) }
}

extension Double: JSONConvertible {
  var asReply: RESPValue { .double(self) }
}

extension Bool: JSONConvertible {
  var asReply: RESPValue { .boolean(self) }
}

extension Array: JSONConvertible where Element: JSONConvertible {
  var asReply: RESPValue { .array(map(\.asReply)) }
}
