import CountdownStore
import Glibc

extension Configuration {
  /// The file that is read when the command line names none.
  package static let standardPath = "/etc/countdownd/countdownd.yaml"

  /// The longest file that is read: more than any configuration needs.
  static let fileLimitBytes = 1 << 20

  /// Reads the file, then every `*.yaml` of the directory `PATH.d` in the order of their names;
  /// later files win, setting by setting. Throws the problems of all files.
  ///
  /// The file at `standardPath` may be missing, since the defaults are a configuration, too; one
  /// that the operator chose may not. The directory may always be missing.
  package static func load(
    path: String = standardPath
  ) throws(ConfigurationError) -> Configuration {
    var configuration = Configuration()
    var problems: [ConfigurationProblem] = []

    func merge(_ file: String, mayBeMissing: Bool) {
      switch contents(of: file) {
      case .success(let yaml):
        configuration.files.read.append(file)
        problems += configuration.merge(yaml: yaml, file: file)
      case .failure(.system(let failure)) where mayBeMissing && failure.code == ENOENT: break
      case .failure(let failure):
        problems.append(
          ConfigurationProblem(file: file, line: failure.line, message: failure.description))
      }
    }

    merge(path, mayBeMissing: path == standardPath)
    let directory = path + ".d"
    do throws(SafeFile.Failure) {
      let names = try dropIns(in: directory)
      configuration.files.read.append(directory)
      for name in names {
        let file = "\(directory)/\(name)"
        if name.hasSuffix(".yaml") {
          merge(file, mayBeMissing: false)
        } else {
          configuration.files.ignored.append(file)
        }
      }
    } catch {
      if error.code != ENOENT {
        let message = ReadFailure.system(error).description
        problems.append(ConfigurationProblem(file: directory, message: message))
      }
    }
    if problems.isEmpty { problems = configuration.inconsistencies(file: path) }
    guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
    return configuration
  }

  private enum ReadFailure: Error, CustomStringConvertible {
    case system(SafeFile.Failure)
    case tooLong
    case notUTF8(line: Int)

    var line: Int? { if case .notUTF8(let line) = self { line } else { nil } }

    var description: String {
      switch self {
      case .system(let failure): "cannot be read: \(failure.reason)"
      case .tooLong: "longer than \(fileLimitBytes) bytes"
      case .notUTF8: "not UTF-8"
      }
    }
  }

  private static func contents(of path: String) -> Result<String, ReadFailure> {
    let bytes: [UInt8]
    do {
      bytes = try SafeFile.read(path, atMost: fileLimitBytes + 1)
    } catch {
      return .failure(.system(error))
    }
    guard bytes.count <= fileLimitBytes else { return .failure(.tooLong) }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      return .failure(.notUTF8(line: lineThatIsNotUTF8(bytes)))
    }
    return .success(text)
  }

  private static func lineThatIsNotUTF8(_ bytes: [UInt8]) -> Int {
    var decoder = UTF8()
    var iterator = bytes.makeIterator()
    var line = 1
    while case .scalarValue(let scalar) = decoder.decode(&iterator) {
      if scalar == "\n" { line += 1 }
    }
    return line
  }

  /// Returns the names of the drop-ins, sorted by their bytes so that no locale changes which wins,
  /// among them names that only look like theirs, such as `own.yml`. Skips hidden files, which
  /// editors and package managers create.
  private static func dropIns(in directory: String) throws(SafeFile.Failure) -> [String] {
    try SafeFile.names(in: directory).filter { name in
      let name = name.lowercased()
      return (name.hasSuffix(".yaml") || name.hasSuffix(".yml")) && !name.hasPrefix(".")
    }
    .sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }
}
