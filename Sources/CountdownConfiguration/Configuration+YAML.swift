extension Configuration {
  /// Creates a configuration from the defaults and the settings in `yaml`.
  package init(yaml: String, file: String) throws(ConfigurationError) {
    self.init()
    var problems = merge(yaml: yaml, file: file)
    if problems.isEmpty { problems = inconsistencies(file: file) }
    guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
  }

  /// Overrides settings with those in `yaml`, one by one, and returns all problems. `file` only
  /// appears in the problems.
  package mutating func merge(yaml: String, file: String) -> [ConfigurationProblem] {
    let problems = ProblemList(file: file, yaml: yaml)
    do {
      let document = try YAMLDocument(yaml)
      if let root = document.root {
        readSection(ValueReader(node: root, of: document, name: "", problems: problems))
      }
    } catch {
      problems.add(line: error.line, setting: nil, "not YAML: \(error.message)")
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
