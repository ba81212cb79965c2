import Yams

extension Configuration {
  /// The defaults with what `yaml` says put over them.
  package init(yaml: String, file: String) throws(ConfigurationError) {
    self.init()
    var problems = merge(yaml: yaml, file: file)
    if problems.isEmpty { problems = inconsistencies(file: file) }
    guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
  }

  /// Puts what `yaml` says over what is there, setting by setting, and returns everything that is
  /// wrong with it. `file` is only named in the problems.
  package mutating func merge(yaml: String, file: String) -> [ConfigurationProblem] {
    let problems = ProblemList(file: file, yaml: yaml)
    do {
      // An empty file, or one of comments only, has no root.
      if let root = try Parser(yaml: yaml).singleRoot() {
        readSection(ValueReader(node: root, name: "", problems: problems))
      }
    } catch {
      problems.add(error)
    }
    return problems.problems
  }

  private mutating func readSection(_ section: ValueReader) {
    let known = Setting.keys(in: section.name)
    for (key, value) in section.entries(allowed: known.joined(separator: ", ")) {
      if let setting = Setting.byName[value.name] {
        setting.read(&self, value)
      } else if known.contains(key) {
        readSection(value)
      } else {
        value.reportUnknown(key, known: known)
      }
    }
  }
}

extension ProblemList {
  /// What the YAML parser threw, with its line and without its drawing of the place.
  fileprivate func add(_ error: any Error) {
    switch error as? YamlError {
    case .scanner(let context, let problem, let mark, _),
      .parser(let context, let problem, let mark, _),
      .composer(let context, let problem, let mark, _):
      let since = context.map { " (\($0.text), line \($0.mark.line))" } ?? ""
      add(line: mark.line, setting: nil, "not YAML: \(problem)\(since)")
    case .duplicatedKeysInMapping(let keys, let context):
      let keys = keys.sorted()
      let line = keys.first.flatMap { Self.lineOfRepeat(of: $0, after: context.mark, context.text) }
      add(
        line: line ?? context.mark.line, setting: keys.joined(separator: ", "),
        "more than once in the same section, first on line \(context.mark.line)")
    case .reader(let problem, _, let value, let yaml):
      let before = yaml.unicodeScalars.prefix { $0.value != UInt32(bitPattern: value) }
      let character = Unicode.Scalar(UInt32(bitPattern: value)).map { " '\($0)'" } ?? ""
      add(
        line: before.count { $0 == "\n" } + 1, setting: nil, "not YAML: \(problem)\(character)")
    case .no, .memory, .writer, .emitter, .representer, .dataCouldNotBeDecoded, nil:
      add(line: nil, setting: nil, "cannot be read: \(error)")
    }
  }

  /// Where a key of a section stands again: the parser only says where it stands first. Nil where
  /// the section is in braces, so that its keys need not stand below each other.
  private static func lineOfRepeat(of key: String, after first: Mark, _ yaml: String) -> Int? {
    let lines = yaml.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let keys = ["\(key)", "'\(key)'", "\"\(key)\""]
    for (index, line) in lines.enumerated().dropFirst(first.line) {
      let indent = line.prefix { $0 == UInt8(ascii: " ") }
      guard indent.count == first.column - 1 else { continue }
      for key in keys where line.dropFirst(indent.count).starts(with: key.utf8) {
        let rest = line.dropFirst(indent.count + key.utf8.count).drop { $0 == UInt8(ascii: " ") }
        if rest.first == UInt8(ascii: ":") { return index + 1 }
      }
    }
    return nil
  }
}
