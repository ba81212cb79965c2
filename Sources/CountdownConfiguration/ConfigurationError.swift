import Wire

/// Everything that is wrong with the configuration, in the order of the files and lines.
package struct ConfigurationError: Error, Equatable, CustomStringConvertible {
  package let problems: [ConfigurationProblem]

  /// One line per problem.
  package var description: String {
    problems.map(\.description).joined(separator: "\n")
  }
}

/// One thing that is wrong, and where.
package struct ConfigurationProblem: Equatable, Sendable, CustomStringConvertible {
  package let file: String
  /// Counted from 1; nil when it is about the file as a whole.
  package let line: Int?
  /// The full name, such as `limits.max-connections`; nil when it is about no setting.
  package let setting: String?
  package let message: String

  package init(file: String, line: Int? = nil, setting: String? = nil, message: String) {
    self.file = file
    self.line = line
    self.setting = setting
    self.message = message
  }

  /// `FILE:LINE: SETTING: what is wrong`, on one line and printable whatever the file says.
  package var description: String {
    let place = line.map { "\(file):\($0)" } ?? file
    return [place, setting, message].compactMap(\.self).joined(separator: ": ").printable
  }
}
