import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Countdowns
import Glibc

struct Policy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "policy",
    abstract: "Checks and explains the policies of configuration files; needs no daemon.",
    discussion: """
      Examples:
        countdownctl policy check
        countdownctl policy check new.yaml && systemctl reload countdownd
        countdownctl policy explain login
        countdownctl policy explain --config new.yaml
      """,
    subcommands: [Check.self, Explain.self])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Says whether countdownd would take the configuration, and what is wrong if not.",
      discussion: "Reads FILE and FILE.d/*.yaml, all settings. Exit status 1 when any is wrong.")

    @OptionGroup var global: GlobalOptions
    @Argument(
      help: .init(
        "Configuration files (default: \(Configuration.standardPath)).", valueName: "file"),
      completion: .file())
    var files: [String] = []

    func run() async throws {
      var isGood = true
      for file in files.isEmpty ? [Configuration.standardPath] : files {
        isGood = check(file) && isGood
      }
      if !isGood { throw ExitCode.refused }
    }

    private func check(_ file: String) -> Bool {
      var names: [String] = []
      var problems: [String] = []
      do {
        names = try Configuration.load(path: file).policies.keys.sorted()
      } catch {
        problems = error.problems.map(\.description)
      }
      if global.json {
        Output.line(
          RESPValue.object(["file": file, "policies": names, "problems": problems]).json)
      } else if problems.isEmpty {
        let verdict = isThere(file) ? "good" : "not there; the defaults count"
        let list = names.isEmpty ? "no policies" : "policies: " + names.joined(separator: ", ")
        Output.line("\(file.printable): \(verdict); \(list)")
      } else {
        for problem in problems { Output.error(problem) }
      }
      return problems.isEmpty
    }
  }

  struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Reads a policy out: when each send can be, and how long a code is good.",
      discussion: "All policies unless one is named. Exit status 1 when there is no such policy.")

    @OptionGroup var global: GlobalOptions
    @Argument(help: "The policy.") var name: String?
    @Option(help: "The configuration file; FILE.d/*.yaml are read after it.", completion: .file())
    var config = Configuration.standardPath

    func run() async throws {
      let policies: [String: SendPolicy]
      do {
        policies = try Configuration.load(path: config).policies
      } catch {
        for problem in error.problems { Output.error(problem.description) }
        throw ExitCode.refused
      }
      let names = policies.keys.sorted()
      if let name, policies[name] == nil {
        let known = names.isEmpty ? "it has none" : "known: " + names.joined(separator: ", ")
        Output.error("there is no policy '\(name)' in \(config); \(known)")
        throw ExitCode.refused
      }
      if names.isEmpty, !global.json {
        let reason = isThere(config) ? "" : ", which is not there"
        Output.line("no policies in \(config.printable)\(reason)")
      }
      for (index, policy) in names.filter({ name == nil || $0 == name }).enumerated() {
        guard let policy = policies[policy] else { continue }
        if global.json {
          Output.line(PolicyText.json(policy).json)
        } else {
          if index > 0 { Output.line("") }
          Output.lines(PolicyText.lines(policy, style: Output.style))
        }
      }
    }
  }
}

private func isThere(_ file: String) -> Bool { unsafe access(file, F_OK) == 0 }

extension PolicyText {
  /// The rules, with the names of the configuration and durations in milliseconds.
  static func json(_ policy: SendPolicy) -> RESPValue {
    let rules = policy.rules
    func milliseconds(_ interval: Interval) -> Int { Int(interval.millisecondsRoundedUp) }
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    let sends = 1...max(rules.ladder.count, 1)
    return .object([
      "name": policy.name, "every_ms": milliseconds(rules.every),
      "ladder_ms": sends.map { milliseconds(policy.cooldown(after: UInt32($0))) },
      "windows": rules.windows.map { window in
        RESPValue.object(["limit": window.limit, "length_ms": milliseconds(window.length)])
      },
      "channels": rules.channels, "validity_ms": rules.validity.map(milliseconds),
      "attempts": rules.attempts.map { Int($0) }, "on_resend": rules.onResend.rawValue,
      "title": rules.title.map(text), "ready_title": rules.readyTitle.map(text),
    ])
  }
}
