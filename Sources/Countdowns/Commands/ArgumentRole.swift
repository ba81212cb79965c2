import Wire

/// What one word of a command is.
enum ArgumentRole {
  case name
  case token(Parameter)
  case value(Parameter)
  /// An unknown option, or any word after one.
  case unknown

  /// Whether logs must not show it: after an unknown option a secret may be anywhere.
  var isSecret: Bool {
    switch self {
    case .name, .token: false
    case .value(let parameter): parameter.isSecret
    case .unknown: true
    }
  }
}

extension CommandSpec {
  /// Returns what each word is, as the command reads them. What logs hide, what the journal keeps
  /// and what a replay changes follow from it.
  func roles(of arguments: Arguments) -> [ArgumentRole] {
    let positions = parameters.prefix { $0.token == nil }
    let first = subcommand == nil ? 1 : 2
    var end = optionsStart?(arguments) ?? first + positions.count
    if positions.count == parameters.count, positions.last?.repeats == true { end = .max }
    var roles: [ArgumentRole] = []
    for index in 0..<min(end, arguments.count) {
      let position = min(index - first, positions.count - 1)
      roles.append(index < first ? .name : .value(positions[position]))
    }
    var (option, left, isLost) = (nil as Parameter?, 0, false)
    for index in roles.count..<arguments.count {
      if let option, left > 0 || option.more?.contains(arguments[index]) == true {
        roles.append(.value(option))
        left -= 1
        continue
      }
      let token = String(decoding: arguments[index]).uppercased()
      option = isLost ? nil : parameters.first { $0.token == token }
      (left, isLost) = (option?.valueCount ?? 0, option == nil)
      roles.append(option.map { .token($0) } ?? .unknown)
    }
    return roles
  }
}

/// The values of a command, by parameter.
struct CommandValues {
  let spec: CommandSpec
  /// The key, and other values before the options.
  var positions: [[UInt8]] = []
  /// The values of each option that is given, by its token.
  var options: [String: [[UInt8]]] = [:]

  init(_ spec: CommandSpec, _ arguments: Arguments) {
    self.spec = spec
    for (index, role) in spec.roles(of: arguments).enumerated() {
      switch role {
      case .name, .unknown: continue
      case .token(let option): options[option.token!] = options[option.token!] ?? []
      case .value(let parameter):
        let value = Array(arguments[index])
        if let token = parameter.token {
          options[token]!.append(value)
        } else {
          positions += [value]
        }
      }
    }
  }

  var words: [[UInt8]] {
    var words = [Array(spec.name.utf8), Array((spec.subcommand ?? "").utf8)] + positions
    for case let token? in spec.parameters.map(\.token) {
      if let values = options[token] { words += [Array(token.utf8)] + values }
    }
    return words
  }
}
