import Countdowns

/// Reads one value of a file into a setting, and reports problems with its place.
struct ValueReader {
  let node: YAMLDocument.Node
  let document: YAMLDocument
  /// The full name of the value, such as `limits.max-connections`.
  let name: String
  let problems: ProblemList

  /// Returns the text of a single value, or nil after reporting that there is none.
  func scalar(allowed: String) -> String? {
    switch node.content {
    case .scalar(let text, _):
      if !isNull { return text }
      report("no value; allowed: \(allowed)")
    case .mapping: report("a section where a value belongs; allowed: \(allowed)")
    case .sequence: report("a list where a value belongs; allowed: \(allowed)")
    }
    return nil
  }

  /// Returns the parsed text of a single value, or nil after reporting that it is not `allowed`.
  func value<Value>(_ allowed: String, _ parse: (String) -> Value?) -> Value? {
    guard let text = scalar(allowed: allowed) else { return nil }
    let value = parse(text)
    if value == nil { refuse(text, allowed: allowed) }
    return value
  }

  /// Returns the items of a list, or nil after reporting that the value is no list.
  func items(allowed: String) -> [ValueReader]? {
    guard case .sequence(let items) = node.content else {
      report("not a list; allowed: \(allowed)")
      return nil
    }
    return items.enumerated().map {
      ValueReader(node: document[$1], of: document, name: "\(name)[\($0)]", problems: problems)
    }
  }

  /// Returns the keys and values of a section; none after reporting that the value is no section. A
  /// section with every line commented out has no value, and counts as absent.
  func entries(allowed: String) -> [(key: String, value: ValueReader)] {
    if isNull { return [] }
    guard case .mapping(let pairs) = node.content else {
      report("not a section; allowed: \(allowed)")
      return []
    }
    var lines: [String: Int] = [:]
    return pairs.compactMap { pair in
      let key = document[pair.key]
      guard case .scalar(let text, _) = key.content else {
        let place = ValueReader(node: key, of: document, name: name, problems: problems)
        place.report("a key must be a plain name; allowed: \(allowed)")
        return nil
      }
      let path = name.isEmpty ? text : "\(name).\(text)"
      // A block begins on a later line than its name; report the name's line.
      let value = ValueReader(
        node: document[pair.value], of: document, name: path, problems: problems, line: key.line)
      if let first = lines[text] {
        value.report("more than once in the same section, first on line \(first)")
        return nil
      }
      lines[text] = key.line
      return (text, value)
    }
  }

  private func refuse(_ text: String, allowed: String) {
    let shown = text.unicodeScalars.count <= 80 ? text : text.prefix(80) + "…"
    report("\(shown.debugDescription) is not allowed; allowed: \(allowed)")
  }

  /// Reports that the last part of the name is not one of the `known` keys of its section. Suggests
  /// a setting of that name in another section first.
  func reportUnknown(_ key: String, known: [String]) {
    let elsewhere = Setting.all.first { $0.name.hasSuffix("." + key) }?.name
    let guess = elsewhere ?? Suggestion.best(for: key, among: known)
    report(
      "unknown setting; "
        + (guess.map { "did you mean \($0)?" } ?? "known: " + known.joined(separator: ", ")))
  }

  /// Reports problems of the rules of a section together, each at the place of its rule.
  func reporting<Item>(_ make: () throws(SendPolicy.Invalid) -> Item) -> Item? {
    do {
      return try make()
    } catch {
      for problem in error.problems { report(at: problem.rule, problem.text) }
      return nil
    }
  }

  /// Reports a problem at a rule of this section, such as `windows[1]` or `passed.in`.
  func report(at rule: String, _ message: String) {
    let path = rule.split(whereSeparator: { ".[]".contains($0) })
    var place = self
    for step in path {
      let next =
        Int(step).map { index in place.items(allowed: "").flatMap { $0[index] } }
        ?? place.entries(allowed: "").first { $0.key == step }?.value
      guard let next else { break }
      place = next
    }
    place.report(message)
  }

  func report(_ message: String) {
    problems.add(line: line, setting: name.isEmpty ? nil : name, message)
  }

  init(
    node: YAMLDocument.Node, of document: YAMLDocument, name: String, problems: ProblemList,
    line: Int? = nil
  ) {
    self.node = node
    self.document = document
    self.name = name
    self.problems = problems
    self.line = line ?? node.line
  }

  private let line: Int

  private var isNull: Bool {
    guard case .scalar(let text, isPlain: true) = node.content else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(text)
  }
}

/// The problems found in one file.
final class ProblemList {
  let file: String
  private(set) var problems: [ConfigurationProblem] = []
  var count: Int { problems.count }

  /// The number of lines in the file.
  private let lines: Int

  init(file: String, yaml: String) {
    self.file = file
    lines = yaml.utf8.count { $0 == UInt8(ascii: "\n") } + 1
  }

  func add(line: Int?, setting: String?, _ message: String) {
    // The parser counts the end of the file as a line, and recognizes more line endings.
    let line = line.map { min($0, lines) }
    problems.append(
      ConfigurationProblem(file: file, line: line, setting: setting, message: message))
  }
}
