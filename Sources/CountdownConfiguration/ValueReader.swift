import Yams

/// One value of a file on its way into a setting: it knows where it stands and takes down problems.
struct ValueReader {
  let node: Node
  /// The full name of what is being read.
  let name: String
  let problems: ProblemList

  /// The text of a single value, or nil after reporting that there is none.
  func scalar(allowed: String) -> String? {
    switch node {
    case .scalar(let scalar):
      if !isNull { return scalar.string }
      report("no value; allowed: \(allowed)")
    case .mapping: report("a section where a value belongs; allowed: \(allowed)")
    case .sequence: report("a list where a value belongs; allowed: \(allowed)")
    case .alias: report("an alias that leads nowhere; allowed: \(allowed)")
    }
    return nil
  }

  /// The parsed text of a single value, or nil after reporting that it is not `allowed`.
  func value<Value>(_ allowed: String, _ parse: (String) -> Value?) -> Value? {
    guard let text = scalar(allowed: allowed) else { return nil }
    let value = parse(text)
    if value == nil { refuse(text, allowed: allowed) }
    return value
  }

  /// The items of a list, or nil after reporting that it is none.
  func items(allowed: String) -> [ValueReader]? {
    guard case .sequence(let sequence) = node else {
      report("not a list; allowed: \(allowed)")
      return nil
    }
    return sequence.enumerated().map {
      ValueReader(node: $1, name: "\(name)[\($0)]", problems: problems)
    }
  }

  /// The keys and values of a section; none after reporting that it is not a section. A section
  /// whose every line is commented out has no value, and is as good as absent.
  func entries(allowed: String) -> [(key: String, value: ValueReader)] {
    if isNull { return [] }
    guard case .mapping(let mapping) = node else {
      report("not a section; allowed: \(allowed)")
      return []
    }
    return mapping.compactMap { key, value in
      guard let text = key.scalar?.string else {
        let place = ValueReader(node: key, name: name, problems: problems)
        place.report("a key must be a plain name; allowed: \(allowed)")
        return nil
      }
      let path = name.isEmpty ? text : "\(name).\(text)"
      // Where the value is a block, it begins on a later line than its name; report the name's.
      return (text, ValueReader(node: value, name: path, problems: problems, line: key.mark?.line))
    }
  }

  private func refuse(_ text: String, allowed: String) {
    let shown = text.unicodeScalars.count <= 80 ? text : text.prefix(80) + "…"
    report("\(shown.debugDescription) is not allowed; allowed: \(allowed)")
  }

  /// Reports that the last part of the name is no key of its section; `known` are those that are.
  /// A setting of that name in another section is the likeliest guess.
  func reportUnknown(_ key: String, known: [String]) {
    let elsewhere = Setting.all.first { $0.name.hasSuffix("." + key) }?.name
    let guess = elsewhere ?? Suggestion.best(for: key, among: known)
    report(
      "unknown setting; "
        + (guess.map { "did you mean \($0)?" } ?? "known: " + known.joined(separator: ", ")))
  }

  func report(_ message: String) {
    problems.add(line: line, setting: name.isEmpty ? nil : name, message)
  }

  init(node: Node, name: String, problems: ProblemList, line: Int? = nil) {
    self.node = node
    self.name = name
    self.problems = problems
    self.line = line ?? node.mark?.line
  }

  private let line: Int?

  private var isNull: Bool {
    guard case .scalar(let scalar) = node, scalar.style == .plain else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
  }
}

/// The problems found in one file so far.
final class ProblemList {
  let file: String
  private(set) var problems: [ConfigurationProblem] = []

  /// How many lines the file has.
  private let lines: Int

  init(file: String, yaml: String) {
    self.file = file
    lines = yaml.utf8.count { $0 == UInt8(ascii: "\n") } + 1
  }

  func add(line: Int?, setting: String?, _ message: String) {
    // The parser takes the end of the file for a line of its own, and knows other ends of lines.
    let line = line.map { min($0, lines) }
    problems.append(
      ConfigurationProblem(file: file, line: line, setting: setting, message: message))
  }
}
