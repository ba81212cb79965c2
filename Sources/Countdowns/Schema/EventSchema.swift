import Wire

extension DaemonSchema {
  /// A JSON Schema of the events, as subscribers receive them.
  package static var jsonSchemaOfEvents: RESPValue {
    .map([
      .of("$schema", "https://json-schema.org/draft/2020-12/schema"),
      .of("title", "An event of countdownd"),
      .of("oneOf", EntityKind.allCases.map { .map([.of("$ref", "#/$defs/\($0.name)")]) }),
      .of("$defs", .map(EntityKind.allCases.map { .of("\($0.name)", .map(definition($0))) })),
    ])
  }

  private static func definition(_ kind: EntityKind) -> [RESPValue.Pair] {
    func describe<K: Kind>(_: K.Type) -> [RESPValue.Pair] {
      let names = ["snapshot"] + K.events.map { "\($0.name.rawValue)" }
      // Some extra fields are those of several events.
      var fields: [Field] = []
      for field in eventFields + K.fields + K.events.flatMap(\.extra)
      where field.name != "accepted" && !fields.contains(where: { $0.name == field.name }) {
        fields.append(field)
      }
      let properties = fields.map { field -> RESPValue.Pair in
        field.name == "event"
          ? .of("event", .map([.of("enum", names.map { .simpleString($0) })]))
          : .of(field.name, .map([.of("description", field.help)] + field.type.json))
      }
      return [
        .of("type", "object"), .of("title", "\(K.name)"), .of("properties", .map(properties)),
        // A key that is not UTF-8 comes as `key_base64`.
        .of("required", ["event", "generation", "seq"]),
      ]
    }
    return describe(kind.behavior)
  }
}

extension ValueType {
  /// The members of the type's JSON Schema.
  fileprivate var json: [RESPValue.Pair] {
    func type(_ name: String) -> [RESPValue.Pair] { [.of("type", name)] }
    switch self {
    case .key, .text, .bytes, .token, .rate, .owner: return type("string")
    case .integer, .duration, .durationOr, .microseconds, .moment, .generation:
      return type("integer")
    case .number(let range):
      return type("number")
        + [.of("minimum", .double(range.lowerBound)), .of("maximum", .double(range.upperBound))]
    case .boolean, .flag, .toggle: return type("boolean")
    case .choice(let values): return [.of("enum", values.map { .simpleString($0) })]
    case .view: return type("object")
    case .list(let element): return type("array") + [.of("items", .map(element.json))]
    case .record(_, let fields):
      return type("object") + [
        .of(
          "properties",
          .map(
            fields.map {
              .of($0.name, .map([.of("description", $0.help)] + $0.type.json))
            }))
      ]
    case .optional(let type):
      return [.of("anyOf", [.map(type.json), .map([.of("type", "null")])])]
    }
  }
}
