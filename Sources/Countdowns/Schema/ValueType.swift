/// The type of an argument or a field: what the schema, and each client made from it, knows.
package indirect enum ValueType: Equatable, Sendable {
  case key
  /// UTF-8 by convention, up to a number of bytes.
  case text(atMost: Int? = nil)
  /// Any bytes, up to a number.
  case bytes(atMost: Int? = nil)
  case token
  case integer(ClosedRange<Int64>)
  case number(ClosedRange<Double>)
  case boolean
  /// An option without a value.
  case flag
  /// `on` or `off`.
  case toggle
  /// Milliseconds in replies; text such as `90s` is accepted, too.
  case duration(atLeast: Int64 = 0)
  /// Microseconds.
  case microseconds
  /// Milliseconds since 1970.
  case moment
  case generation
  case choice([String])
  /// A duration, or a word.
  case durationOr(String)
  /// A count and a duration, such as `5/10m`.
  case rate
  case owner
  case list(ValueType)
  case record(String, [Field])
  /// A view of the command's kind.
  case view
  /// The type, or null.
  case optional(ValueType)

  static let count = ValueType.integer(0...Int64.max)
  /// From 0 to 1.
  static let fraction = ValueType.number(0...1)
  static let points = ValueType.number(-1_000_000...1_000_000)

  static func choice<T: RawRepresentable<String> & CaseIterable>(_: T.Type) -> ValueType {
    .choice(T.allCases.map(\.rawValue))
  }

  static func choice<T: RawRepresentable<Literal> & CaseIterable>(_: T.Type) -> ValueType {
    .choice(T.allCases.map { "\($0.rawValue)" })
  }

  var orNull: ValueType { .optional(self) }
}

/// The most bytes of texts that clients choose.
enum TextLimits {
  static let status = 4_096
  static let meta = 4_096
  static let payload = 4_096
  static let token = 64
  static let action = 512
  static let url = 8_192
  static let clientName = 256
  static let fingerprint = 65_536
}

/// A field of a view or of another map.
package struct Field: Equatable, Sendable {
  package let name: String
  package let type: ValueType
  package let help: String
  /// The kind of another entity whose key it is, or whose keys.
  let other: EntityKind?

  init(_ name: String, _ type: ValueType, _ help: String, keyOf other: EntityKind? = nil) {
    self.name = name
    self.type = type
    self.help = help
    self.other = other
  }
}

/// An event of a kind.
package struct EventDescription: Sendable {
  package let name: Event.Name
  /// When it is published.
  package let help: String
  /// The fields that only events have.
  package let extra: [Field]

  init(_ name: Event.Name, _ help: String, _ extra: [Field] = []) {
    self.name = name
    self.help = help
    self.extra = extra
  }
}

/// The form of a reply.
package enum ReplyForm: Sendable {
  case view, viewOrNull
  /// A view with `accepted` and `reason`.
  case answer, answerOrNull
  /// An answer about one entity; about several, a map with these fields.
  case answerOfSeveral([Field])
  /// 1, or 0 if nothing was done.
  case done
  /// A cursor, and views.
  case listing
  case ok
  case value(ValueType)
  /// What the protocol or Redis defines for the command.
  case special
}
