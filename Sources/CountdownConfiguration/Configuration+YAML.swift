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
    let problems = ProblemList(file: file)
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
      let names = keys.sorted().joined(separator: ", ")
      add(line: context.mark.line, setting: names, "more than once in the same section")
    case .reader(let problem, _, _, _):
      add(line: nil, setting: nil, "not YAML: \(problem)")
    case .no, .memory, .writer, .emitter, .representer, .dataCouldNotBeDecoded, nil:
      add(line: nil, setting: nil, "cannot be read: \(error)")
    }
  }
}
