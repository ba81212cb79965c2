import Wire

/// All problems of the configuration, in the order of files and lines.
package struct ConfigurationError: Error, Equatable, CustomStringConvertible {
  package let problems: [ConfigurationProblem]

  /// One line per problem.
  package var description: String {
    problems.map(\.description).joined(separator: "\n")
  }
}

/// A problem, and where it is.
package struct ConfigurationProblem: Equatable, Sendable, CustomStringConvertible {
  package let file: String
  /// The line, counted from 1; nil if the problem concerns the whole file.
  package let line: Int?
  /// The full name of the setting, such as `limits.max-connections`; nil if none is concerned.
  package let setting: String?
  package let message: String

  package init(file: String, line: Int? = nil, setting: String? = nil, message: String) {
    self.file = file
    self.line = line
    self.setting = setting
    self.message = message
  }

  /// `FILE:LINE: SETTING: MESSAGE`, on one line and printable, whatever the file contains.
  package var description: String {
    let place = line.map { "\(file):\($0)" } ?? file
    return [place, setting, message].compactMap(\.self).joined(separator: ": ").printable
  }
}
