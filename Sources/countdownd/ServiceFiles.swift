import CountdownConfiguration
import CountdownStore
import Countdowns
import Glibc

/// Whether the files that the configuration names can be read by the service, which runs as another
/// user than whoever checks the configuration; and whether its descriptors are enough.
enum ServiceFiles {
  private static let unit = "countdownd.service"

  /// Returns a line for each file that the service cannot read; none without a service with a user
  /// of its own.
  static func problems(_ configuration: Configuration) -> [String] {
    let fleet = configuration.fleet.settings
    guard configuration.fleet.engine != .none, shows("DynamicUser") == "yes" else { return [] }
    let files: [(setting: String, path: String?)] = [
      ("fleet.password-file", fleet.passwordFile),
      ("fleet.tls.authorities", fleet.tls.authorities),
      ("fleet.tls.certificate", fleet.tls.certificate), ("fleet.tls.key", fleet.tls.key),
    ]
    return files.compactMap { setting, path in
      path.flatMap { problem(of: $0) }.map { "\(setting): \($0)" }
    }
  }

  /// Returns what is wrong with the limits, if the service starts nevertheless.
  ///
  /// - Parameter ofService: whether the unit's limit on descriptors counts, if there is one.
  static func warning(_ configuration: Configuration, ofService: Bool) -> String? {
    var most = hardLimit(of: "self") ?? .max
    if ofService, shows("DynamicUser") == "yes", let limit = shows("LimitNOFILE") {
      // systemd lowers the unit's limit to its own, where it may not raise it.
      most = min(Int(limit) ?? .max, hardLimit(of: "1") ?? .max)
    }
    return configuration.connections.problem(of: most)
  }

  /// Returns how many descriptors a process may have open at most; nil if there is no limit.
  ///
  /// Source: proc_pid_limits(5).
  private static func hardLimit(of process: String) -> Int? {
    let bytes = (try? FileContents.read("/proc/\(process)/limits", atMost: 4_096)) ?? []
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    let line = lines.first { $0.hasPrefix("Max open files") }
    return line?.split(separator: " ").dropLast().last.flatMap { Int($0) }
  }

  private static func problem(of path: String) -> String? {
    let credentials = "/run/credentials/\(unit)/"
    guard path.hasPrefix(credentials) else { return problemOfFile(path) }
    // It is there only while the service runs.
    let name = String(path.dropFirst(credentials.count))
    // systemctl shows no credentials, so this reads the unit and its drop-ins.
    let option = "LoadCredential="
    let lines = (output(of: "cat") ?? "").split(separator: "\n").filter { $0.hasPrefix(option) }
    let loaded = lines.map { line in
      line.dropFirst(option.count).split(separator: ":", maxSplits: 1).map(String.init)
    }
    guard let source = loaded.first(where: { $0.first == name })?.last else {
      return "the unit has no LoadCredential=\(name):FILE; the drop-in fleet.conf has it"
    }
    // Root reads the file for the service.
    return unsafe access(source, F_OK) == 0
      ? nil : "there is no \(source), which LoadCredential=\(name) of the unit names"
  }

  private static func problemOfFile(_ path: String) -> String? {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else {
      return unsafe "\(path): \(String(cString: strerror(errno)))"
    }
    guard status.st_mode & S_IROTH == 0 else { return nil }
    return "the service's user cannot read \(path): let LoadCredential= of the unit load it, and "
      + "name /run/credentials/\(unit)/NAME"
  }

  /// Returns a property of the unit; nil if systemd does not know it.
  private static func shows(_ property: String) -> String? {
    output(of: "show --value -p \(property)")
  }

  /// Returns what systemctl prints of the unit; nil if it fails.
  private static func output(of command: String) -> String? {
    guard let output = unsafe popen("systemctl \(command) \(unit) 2>/dev/null", "r") else {
      return nil
    }
    var text = [UInt8](repeating: 0, count: 65_536)
    let count = unsafe fread(&text, 1, text.count, output)
    guard unsafe pclose(output) == 0 else { return nil }
    let value = String(decoding: text[..<count], as: UTF8.self)
    return String(value.trimmingSuffix(while: \.isNewline))
  }
}

extension String {
  fileprivate func trimmingSuffix(while predicate: (Character) -> Bool) -> Substring {
    var rest = self[...]
    while let last = rest.last, predicate(last) { rest.removeLast() }
    return rest
  }
}
