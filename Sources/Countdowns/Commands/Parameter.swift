/// A parameter of a command: an argument, or an option with its token. The usage line, the number
/// of arguments, COMMAND DOCS, the schema, and what logs hide come from it.
struct Parameter: Equatable, Sendable {
  /// The word before the value, or instead of one; nil for an argument.
  let token: String?
  /// What a usage line shows for the value: its name, the words that it can be (`on|off`), or names
  /// of several values; empty for a flag.
  let value: String
  let type: ValueType
  /// What it is for: a sentence or two, with its limits if the type does not have them.
  let help: String
  /// What applies without it: a value, or the name of a setting.
  let fallback: String?
  var isOptional: Bool
  /// The token of the option that can stand in its place: one of both has to be given.
  private(set) var alternative: String?
  /// Whether several of it may be given.
  var repeats: Bool
  /// Whether logs must not show any of its values.
  let isSecret: Bool
  /// The kind of an entity whose key it is, besides the entity that the command is about: it takes
  /// the right to change that one, too.
  let other: EntityKind?
  /// Which words after its values are further values of it; nil if none.
  let more: More?
  /// Whether the journal keeps its value, as it decides something.
  let isDecisive: Bool
  /// The number of words after the token; 1 if there is no token.
  let valueCount: Int

  enum More {
    /// Keys of named limits: no option has a colon.
    case limits
    case numbers

    func contains(_ word: Span<UInt8>) -> Bool {
      switch self {
      case .limits: word.firstIndex(of: UInt8(ascii: ":")) != nil
      case .numbers: Int64(String(decoding: word)) != nil
      }
    }
  }

  init(
    token: String? = nil, _ value: String, _ type: ValueType, _ help: String,
    default fallback: String? = nil, isOptional: Bool = false, repeats: Bool = false,
    isSecret: Bool = false, keyOf other: EntityKind? = nil, more: More? = nil,
    isDecisive: Bool = true
  ) {
    self.token = token
    self.value = value
    self.type = type
    self.help = help
    self.fallback = fallback
    self.isOptional = isOptional
    self.repeats = repeats
    self.isSecret = isSecret
    self.other = other
    self.more = more
    self.isDecisive = isDecisive
    valueCount = value.split(separator: " ").count
  }

  var optional: Parameter {
    var parameter = self
    parameter.isOptional = true
    return parameter
  }

  /// The parameter, in whose place an option can be given that takes at least as many words.
  func or(_ token: String) -> Parameter {
    var parameter = optional
    parameter.alternative = token
    return parameter
  }

  /// The parameter as the last one of a command, of which there may be any number.
  var repeated: Parameter {
    var parameter = optional
    parameter.repeats = true
    return parameter
  }

  /// The words that the value can be; empty if it can be anything.
  var choices: [String] {
    let words = value.split(separator: "|").map(String.init)
    return valueCount == 1 && words.count > 1 ? words : []
  }

  /// The name of the value, or of the token if there is no value.
  var name: String {
    if let token, value.isEmpty { return token.lowercased() }
    return choices.isEmpty ? value : choices.joined(separator: "-").lowercased()
  }

  /// The value, or the name of a flag.
  var display: String { value.isEmpty ? name : value }

  /// The parameter in a usage line: `[COUNT n]`.
  var syntax: String {
    let words = [token, value.isEmpty ? nil : value, repeats ? "..." : nil].compactMap(\.self)
    let text = words.joined(separator: " ")
    return isOptional ? "[\(text)]" : text
  }

  // MARK: Of several commands

  /// Returns a parameter for the key of another entity, which the command uses.
  static func key(_ name: String, of kind: EntityKind, _ help: String) -> Parameter {
    Parameter(name, .key, help, keyOf: kind)
  }

  static let key = Parameter("key", .key, "The key, 1 to 512 bytes.")
  static let channel = Parameter("channel", .text(), "A channel, such as `countdown:KEY`.")
  static let pattern = Parameter(
    "pattern", .text(atMost: 1_024), "A glob pattern: `*` `?` `[a-z]` `[^a]`.")
  static let settingValue = Parameter("value", .text(), "The value.")
  static let fraction = Parameter("fraction", .fraction, "The progress.")
  static let commandName = Parameter("name", .text(), "The name of a command.")
}

extension [Parameter] {
  /// Fewest and most words that they take; nil for any number.
  var argumentCount: (least: Int, maximum: Int?) {
    var (least, maximum) = (0, 0 as Int?)
    for parameter in self {
      let words = (parameter.token == nil ? 0 : 1) + parameter.valueCount
      if !parameter.isOptional || parameter.alternative != nil { least += words }
      maximum = parameter.repeats ? nil : maximum.map { $0 + words }
    }
    return (least, maximum)
  }
}

extension Kind {
  /// The parameter for the key of an entity.
  static var key: Parameter {
    keyName == "key" ? .key : Parameter(keyName, .key, "The \(keyName).")
  }
}
