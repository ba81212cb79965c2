/// Parses the syntax lines of the command table for `COMMAND DOCS`, argument counts and the
/// redaction of logs. An exclamation mark before a value marks it as secret; users do not see it.
///
///     key  GENERATION g  [COUNT n]  [FIRE]  [EARLY skip|show]  [AUTH username !password]  [pattern ...]
///     channel [channel ...]
///     key !result  [PAYLOAD !bytes]
enum Syntax {
  private static let secrecyMark: Character = "!"

  struct Parameter: Equatable {
    /// The name of the value, or of the token if there is no value.
    var name: String
    var token: String?
    /// The words that the value can be; empty if it can be anything.
    var choices: [String] = []
    var isOptional = false
    var repeats = false
    /// The number of words after the token; 1 if there is no token.
    var valueCount = 1
    /// Whether logs must not show any of its values.
    var isSecret = false
    var hasValue: Bool { valueCount > 0 }
    var type = ValueType.text()
    /// The value in a syntax line.
    var display: String { choices.isEmpty ? name : choices.joined(separator: "|") }
    var help = ""
    /// What applies without it: a value, or the name of a setting.
    var fallback: String?
  }

  /// Returns a syntax line as users see it.
  static func shown(_ syntax: String) -> String { syntax.filter { $0 != secrecyMark } }

  static func parse(_ syntax: String) -> [Parameter] {
    var parameters: [Parameter] = []
    var rest = Substring(syntax)
    while let first = rest.first {
      if first == " " {
        rest = rest.dropFirst()
      } else if first == "[", let end = rest.firstIndex(of: "]") {
        parameters.append(optional(rest[rest.index(after: rest.startIndex)..<end]))
        rest = rest[rest.index(after: end)...]
      } else {
        let word = rest.prefix { $0 != " " }
        rest = rest.dropFirst(word.count)
        var parameter = value(word)
        // A word in capitals outside brackets is the token of the value after it.
        if word.allSatisfy(\.isUppercase) {
          let next = rest.drop { $0 == " " }.prefix { $0 != " " }
          rest = rest.drop { $0 == " " }.dropFirst(next.count)
          parameter = value(next)
          parameter.token = String(word)
        }
        parameters.append(parameter)
      }
    }
    return parameters
  }

  private static func optional(_ inside: Substring) -> Parameter {
    var words = inside.split(separator: " ")
    let repeats = words.last == "..."
    if repeats { words.removeLast() }
    var parameter: Parameter
    if words[0].allSatisfy({ $0.isUppercase || $0 == "-" }) {
      let values = words.dropFirst()
      parameter =
        switch values.count {
        case 0: Parameter(name: words[0].lowercased())
        case 1: value(words[1])
        default:
          Parameter(
            name: shown(values.joined(separator: " ")),
            isSecret: values.contains { $0.first == secrecyMark })
        }
      parameter.token = String(words[0])
      parameter.valueCount = values.count
    } else {
      parameter = value(words[0])
    }
    parameter.isOptional = true
    parameter.repeats = repeats
    return parameter
  }

  private static func value(_ word: Substring) -> Parameter {
    let choices = word.split(separator: "|").map(String.init)
    return choices.count > 1
      ? Parameter(name: choices.joined(separator: "-").lowercased(), choices: choices)
      : Parameter(name: shown(String(word)), isSecret: word.first == secrecyMark)
  }

  static func argumentCount(of parameters: [Parameter]) -> (least: Int, most: Int?) {
    var least = 0
    var most: Int? = 0
    for parameter in parameters {
      let words = (parameter.token == nil ? 0 : 1) + parameter.valueCount
      if !parameter.isOptional { least += words }
      most = parameter.repeats ? nil : most.map { $0 + words }
    }
    return (least, most)
  }
}
