import CountdownConfiguration
import Glibc
import SeededRandom
import Wire

/// Damaged configuration files: each is loaded, or refused with short problems that name a line.
package final class ConfigurationFuzz: FuzzTarget {
  package static let name = "configuration"

  private static let inserts = Array("[]{}:,-#&*!|>'\"%@`~?0\n\t \0é\u{1B}\u{FEFF}".utf8)
  private static let longestMessage = 4_096

  private let directory: String
  private let file: String
  private let originals: [[UInt8]]

  package init() throws {
    directory = try Files.makeTemporaryDirectory()
    file = directory + "/f.yaml"
    let example = String(
      decoding: try Files.read("\(project)/config/countdownd.yaml"), as: UTF8.self)
    // Most of the example is comments, where damage does nothing.
    let bare = example.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("#") }
    originals = [
      Array(example.utf8), Array(bare.joined(separator: "\n").utf8), Array(Self.policies.utf8),
    ]
  }

  deinit {
    Files.removeFiles(in: directory)
    rmdir(directory)
  }

  private static let policies = """
    policies:
      login:
        count: 60
        every: 1s
        ladder: [60s, 2m, 5m]
        windows: [5/10m, 9/1d]
        channels: [sms, call]
        validity: 10m
        attempts: 3
        on-resend: replace
        title: "%ds"
        ready-title: '再次发送'
      other: {windows: [3/1d], limits: [ip, all], validity: 1m, attempts: 1, lockout: [5m, 1d]}
      bound: {validity: 1m, guesses: 9/1d, refunds: 5/10m, attempt-limits: [ip]}
    throttles:
      ip: {burst: 10, rate: 20/1h, without-last: 4}
      all: {windows: [9/1h], global: true, passed: {least: 20%, of: 5, in: 1h, block: 1h}}
    access: {connect: {users: [root, 0], groups: []}, admin: {users: [root]}}
    hud: {screens: {pay: {max-level: alert}}, blocking: {paths: [/api/x], verbs: [Create]}}
    """

  /// Settings that are wrong only beside others, so no line has the mistake.
  private static let contradicted: Set = [
    "countdown.count", "fleet.engine", "fleet.nodes", "fleet.tls.enabled", "fleet.tls.key",
    "fleet.password-file", "journal.secret-file",
  ]

  private static func isContradicted(_ setting: String) -> Bool {
    let parts = setting.split(separator: ".")
    return switch parts.first {
    case "policies": ["limits", "shadow"].contains(parts.last)
    case "throttles": ["windows", "of"].contains(parts.last)
    default: contradicted.contains(setting)
    }
  }

  package func input(seed: UInt64) -> [UInt8] {
    var random = SeededGenerator(seed: seed)
    var bytes = random.one(of: originals)
    random.damage(&bytes, atMost: 6, inserting: Self.inserts)
    return bytes
  }

  /// Returns the problems of a file; none if it can be loaded.
  package func problems(of input: [UInt8]) throws -> [String] {
    try Files.write(input, to: file)
    do {
      _ = try Configuration.load(path: file).settings
      return []
    } catch {
      return error.problems.map(\.description)
    }
  }

  package func check(_ input: [UInt8]) throws {
    try Files.write(input, to: file)
    do {
      let configuration = try Configuration.load(path: file)
      _ = configuration.settings
    } catch {
      let lines = input.count { $0 == UInt8(ascii: "\n") } + 1
      let isAboutAll = error.problems.allSatisfy {
        $0.line == nil && Self.isContradicted($0.setting ?? "")
      }
      for problem in error.problems {
        let text = problem.description
        guard problem.file == file, isAboutAll || problem.line.map((1...lines).contains) == true
        else {
          throw FuzzFailure("no line of the file: \(text)")
        }
        guard text.utf8.count <= Self.longestMessage, text.unicodeScalars.allSatisfy(\.isPrintable)
        else { throw FuzzFailure("not a line of reasonable length: \(text.debugDescription)") }
      }
    }
  }
}
