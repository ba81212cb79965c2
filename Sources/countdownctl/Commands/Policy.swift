import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Countdowns
import Glibc

struct Policy: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check configuration files, explain their policies, and try them on a journal.",
    discussion: """
      Examples:
        countdownctl policy check
        countdownctl policy check new.yaml && systemctl reload countdownd
        countdownctl policy explain login
        countdownctl policy explain --config new.yaml
        countdownctl policy replay new.yaml --price 0.05
      """,
    subcommands: [Check.self, Explain.self, PolicyReplay.self])

  struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Check configuration files, and show what is wrong with them.",
      discussion: "Checks FILE and FILE.d/*.yaml, all settings. Exit status 1 if any is wrong.")

    @Argument(
      help: .init(
        "Configuration files (default: \(Configuration.standardPath)).", valueName: "file"),
      completion: .file())
    var files: [String] = []
    @OptionGroup var global: GlobalOptions

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
        names = try Configuration.load(path: file).engine.policies.keys.sorted()
      } catch {
        problems = error.problems.map(\.description)
      }
      if global.json {
        Output.line(
          RESPValue.object(["file": file, "policies": names, "problems": problems]).json)
      } else if problems.isEmpty {
        let verdict = isThere(file) ? "valid" : "does not exist; the defaults apply"
        let list = names.isEmpty ? "no policies" : "policies: " + names.joined(separator: ", ")
        Output.line("\(file.printable): \(verdict); \(list)")
      } else {
        for problem in problems { Output.error(problem, code: "FILE") }
      }
      return problems.isEmpty
    }
  }

  struct Explain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Explain a policy: when codes may be sent, and how long they are valid.",
      discussion:
        "Explains all policies if none is named. Exit status 1 if there is no such policy.")

    @Argument(help: "The policy.", completion: Completion.policies) var name: String?
    @Option(help: "The configuration file; FILE.d/*.yaml are read after it.", completion: .file())
    var config = Configuration.standardPath
    @OptionGroup var global: GlobalOptions

    func run() async throws {
      let engine = try Policy.settings(of: config)
      let policies = engine.policies
      let names = policies.keys.sorted()
      if let name, policies[name] == nil {
        let known = names.isEmpty ? "it has none" : "known: " + names.joined(separator: ", ")
        throw Failure("there is no policy '\(name)' in \(config); \(known)", code: "NOTFOUND")
      }
      if names.isEmpty, !global.json {
        let reason = isThere(config) ? "" : ", which does not exist"
        Output.line("no policies in \(config.printable)\(reason)")
      }
      for (index, policy) in names.filter({ name == nil || $0 == name }).enumerated() {
        guard let policy = policies[policy] else { continue }
        if global.json {
          Output.line(PolicyText.json(policy).json)
        } else {
          if index > 0 { Output.line("") }
          Output.lines(PolicyText.lines(policy, throttles: engine.throttles, style: Output.style))
        }
      }
    }
  }

  /// Returns the settings of configuration files. Prints their problems, if there are any, and
  /// throws exit status 1.
  static func settings(of file: String) throws -> EngineSettings {
    do {
      return try Configuration.load(path: file).engine
    } catch {
      for problem in error.problems { Output.error(problem.description, code: "FILE") }
      throw ExitCode.refused
    }
  }
}

private func isThere(_ file: String) -> Bool { unsafe access(file, F_OK) == 0 }

extension PolicyText {
  /// Returns the rules under the names of the configuration, with durations in milliseconds.
  static func json(_ policy: SendPolicy) -> RESPValue {
    let rules = policy.rules
    func milliseconds(_ interval: Interval) -> Int { Int(interval.millisecondsRoundedUp) }
    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
    func window(_ window: SendPolicy.Window) -> RESPValue {
      .object(["limit": window.limit, "length_ms": milliseconds(window.length)])
    }
    let sends = 1...max(rules.ladder.count, 1)
    return .object([
      "name": policy.name, "every_ms": milliseconds(rules.every),
      "ladder_ms": sends.map { milliseconds(policy.cooldown(after: UInt32($0))) },
      "windows": rules.windows.map(window),
      "channels": rules.channels, "validity_ms": rules.validity.map(milliseconds),
      "attempts": rules.attempts.map { Int($0) }, "on_resend": rules.onResend.rawValue,
      "title": rules.title.map(text), "ready_title": rules.readyTitle.map(text),
      "lockout_ms": rules.lockout.map(milliseconds), "guesses": rules.guesses.map(window),
      "refunds": rules.refunds.map(window),
      "limits": rules.limits, "attempt_limits": rules.attemptLimits,
      "unreachable": policy.unreachable?.rawValue,
    ])
  }
}
