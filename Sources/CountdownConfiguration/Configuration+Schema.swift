import Countdowns
import Wire

extension Configuration {
  /// The settings for `countdownctl schema`.
  package static var schema: RESPValue {
    let standard = Configuration()
    return .array(
      Setting.all.map { setting in
        .map(
          [.of("name", setting.name), .of("help", setting.help)] + setting.schema + [
            .of("default", setting.list(standard).first?.value ?? ""),
            .of("restart", setting.needsRestart),
          ])
      })
  }

  /// A JSON Schema of the configuration files, for editors.
  package static var jsonSchema: RESPValue {
    .map(
      [
        .of("$schema", "https://json-schema.org/draft/2020-12/schema"),
        .of("title", "The configuration of countdownd"),
      ] + section(""))
  }

  private static func section(_ name: String) -> [RESPValue.Pair] {
    let properties = Setting.keys(in: name).map { key -> RESPValue.Pair in
      let full = name.isEmpty ? key : "\(name).\(key)"
      guard let setting = Setting.byName[full] else { return .of(key, .map(section(full))) }
      return .of(key, .map([.of("description", setting.help)] + setting.schema))
    }
    return [
      .of("type", "object"), .of("additionalProperties", false),
      .of("properties", .map(properties)),
    ]
  }
}

extension [RESPValue.Pair] {
  static var duration: Self {
    [.textOrInteger, .of("pattern", "^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d)?)+$")]
  }

  static func list(of allowed: String) -> Self {
    [
      .of("type", "array"),
      .of("items", .map([.textOrInteger, .of("description", allowed)])),
    ]
  }
}

extension RESPValue.Pair {
  static var textOrInteger: Self { .of("type", ["string", "integer"]) }
}
