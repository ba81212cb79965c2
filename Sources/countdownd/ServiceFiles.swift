import CountdownConfiguration
import CountdownStore
import Countdowns
import Glibc

/// Whether the service, which runs as another user than whoever checks the configuration, can read
/// the configuration and the files that it names; and whether its descriptors are enough.
enum ServiceFiles {
  private static let unit = "countdownd.service"

  /// Returns a line for each file that the service cannot read; none without a service with a user
  /// of its own.
  ///
  /// - Parameter config: the configuration's path, if it is not the standard one.
  static func problems(_ configuration: Configuration, from config: String?) -> [String] {
    guard config == nil || config == Configuration.standardPath, let user = ServiceUser(shown())
    else { return [] }
    let unreadable = configuration.files.read.compactMap { user.problem(of: $0) }
    return unreadable.map { "\($0): give it mode 0644 (a directory: 0755)" }
      + named(configuration).compactMap { setting, path in
        path.flatMap { problem(of: $0, user) }.map { "\(setting): \($0)" }
      }
  }

  /// The files that the configuration names, by setting.
  private static func named(_ configuration: Configuration) -> [(setting: String, path: String?)] {
    var files: [(setting: String, path: String?)] = []
    if configuration.journal.isOn, configuration.journal.keys == .hmac {
      files.append(("journal.secret-file", configuration.journal.secretFile))
    }
    guard configuration.fleet.engine != .none else { return files }
    let fleet = configuration.fleet.settings
    return files + [
      ("fleet.password-file", fleet.passwordFile),
      ("fleet.sentinel-password-file", fleet.sentinelPasswordFile),
      ("fleet.tls.authorities", fleet.tls.authorities),
      ("fleet.tls.certificate", fleet.tls.certificate), ("fleet.tls.key", fleet.tls.key),
    ]
  }

  /// Returns what is wrong with the limits, if the service starts nevertheless.
  ///
  /// - Parameter ofService: whether the unit's limit on descriptors counts, if there is one.
  static func warning(_ configuration: Configuration, ofService: Bool) -> String? {
    var maximum = hardLimit(of: "self") ?? .max
    let unit = ofService ? shown() : [:]
    if unit["DynamicUser"] == "yes", let limit = unit["LimitNOFILE"] {
      // systemd lowers the unit's limit to its own, where it may not raise it.
      maximum = min(Int(limit) ?? .max, hardLimit(of: "1") ?? .max)
    }
    return configuration.connections.problem(of: maximum)
  }

  /// Returns how many descriptors a process may have open at most; nil if there is no limit.
  ///
  /// Source: proc_pid_limits(5).
  private static func hardLimit(of process: String) -> Int? {
    let bytes = (try? SafeFile.read("/proc/\(process)/limits", atMost: 4_096)) ?? []
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    let line = lines.first { $0.hasPrefix("Max open files") }
    return line?.split(separator: " ").dropLast().last.flatMap { Int($0) }
  }

  private static func problem(of path: String, _ user: ServiceUser) -> String? {
    let credentials = "/run/credentials/\(unit)/"
    guard path.hasPrefix(credentials) else {
      return user.problem(of: path).map {
        "\($0): let LoadCredential= of the unit load it, and name \(credentials)NAME"
      }
    }
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

  /// Returns the properties of the unit that say who runs it, and its limit; empty if systemd does
  /// not know it.
  private static func shown() -> [String: String] {
    let lines = output(of: "show -p DynamicUser,User,Group,SupplementaryGroups,LimitNOFILE") ?? ""
    return Dictionary(
      lines.split(separator: "\n").compactMap { line in
        let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.count == 2 ? (String(parts[0]), String(parts[1])) : nil
      }, uniquingKeysWith: { $1 })
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

/// The user that runs the service, and what the permissions of files let them read. Access control
/// lists are not looked at.
private struct ServiceUser {
  private let name: String
  /// Nil for a dynamic user, who owns none of these files.
  private let uid: uid_t?
  private let groups: Set<gid_t>

  /// Nil for root, who reads everything, and without a service.
  ///
  /// - Parameter unit: the properties of its unit.
  init?(_ unit: [String: String]) {
    let isDynamic = unit["DynamicUser"] == "yes"
    name = unit["User"].flatMap { $0.isEmpty ? nil : $0 } ?? (isDynamic ? "countdownd" : "root")
    guard isDynamic || name != "root" && name != "0" else { return nil }
    let entry = unsafe getpwnam(name)
    uid = unsafe isDynamic ? nil : entry?.pointee.pw_uid ?? uid_t(name)
    let names = [unit["Group"], unit["SupplementaryGroups"]].compactMap(\.self)
      .flatMap { $0.split(separator: " ").map(String.init) }
    var groups = Set(names.compactMap { unsafe getgrnam($0)?.pointee.gr_gid ?? gid_t($0) })
    if !isDynamic, let entry = unsafe entry { unsafe groups.insert(entry.pointee.pw_gid) }
    self.groups = groups
  }

  /// Returns why the user cannot read a file or list a directory; nil if they can.
  func problem(of path: String) -> String? {
    var end = path.startIndex
    while let slash = path[end...].firstIndex(of: "/") {
      end = path.index(after: slash)
      if let problem = problem(of: path, folder: String(path[..<end]), needing: 0o1) {
        return problem
      }
    }
    return problem(of: path, folder: path, needing: 0o4)
  }

  /// - Parameter bits: what the last three bits of the mode need: 1 to pass, 4 to read.
  private func problem(of path: String, folder: String, needing bits: mode_t) -> String? {
    var status = stat()
    guard unsafe stat(folder, &status) == 0 else {
      return unsafe "\(folder): \(String(cString: strerror(errno)))"
    }
    let isDirectory = status.st_mode & S_IFMT == S_IFDIR
    let needed = isDirectory ? bits | 0o1 : bits
    let shift: mode_t = status.st_uid == uid ? 6 : groups.contains(status.st_gid) ? 3 : 0
    guard (status.st_mode >> shift) & needed != needed else { return nil }
    let mode = String(status.st_mode & 0o7777, radix: 8)
    let what = folder == path ? "" : ", as it cannot pass \(folder)"
    return "the service's user \(name) cannot read \(path)\(what) (mode 0\(mode), uid "
      + "\(status.st_uid), gid \(status.st_gid))"
  }
}

extension String {
  fileprivate func trimmingSuffix(while predicate: (Character) -> Bool) -> Substring {
    var rest = self[...]
    while let last = rest.last, predicate(last) { rest.removeLast() }
    return rest
  }
}
