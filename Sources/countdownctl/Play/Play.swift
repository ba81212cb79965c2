import ArgumentParser
import CountdownClient
import Countdowns
import Wire

struct Play: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Play files of timed commands on virtual time, and compare what happens.",
    discussion: """
      A flow is a text file: commands at their times, and the replies and events that they lead \
      to. Each flow is played in a moment, on a daemon of its own that starts and ends with it; \
      with --socket, on one that runs with --virtual-time. \
      The timeline is printed; lines that were expected and did not happen begin with -, lines \
      that happened instead with +.

      Write a flow:
        0s   > COUNTDOWN START k COUNT 3    a command, at 0 s
             < accepted=true                its reply has this field, and others
             * countdown:k started          an event, with the fields that follow
             …                              any replies and events
        3s   * countdown:k ready            at 3 s
             phone> GATE CHECK s pay        a command of a client with a name
             # …                            a comment
        config:                             before the first command: the configuration,
          policies: …                       in YAML, indented

      Exit status 1: a flow went otherwise, or is not written correctly.

      Examples:
        countdownctl play Examples/flows/*.flow
        countdownctl play --quiet login.flow
        countdownctl play --pace 500ms login.flow
        countdownctl play --socket ./test.sock login.flow
      """)

  @Flag(help: "Print only flows that went otherwise.") var quiet = false

  @Option(
    help: .init("Wait so long before each line, for reading along.", valueName: "duration"),
    transform: duration)
  var pace = Duration.zero

  @OptionGroup var global: GlobalOptions

  @Argument(help: .init("The flows.", valueName: "flow"), completion: .file(extensions: ["flow"]))
  var flows: [String]

  func run() async throws {
    var hasFailed = false
    for path in flows {
      do {
        if try await !play(path) { hasFailed = true }
      } catch let problem as Flow.Problem {
        Output.error("\(path):\(problem.line): \(problem.text)", code: "FILE")
        hasFailed = true
      } catch let failure as Failure {
        Output.error(failure.text, code: failure.code)
        hasFailed = true
      } catch let error as CountdownClientError {
        Output.error("\(path): \(error)", code: "CLOSED")
        throw ExitCode.serverError
      }
    }
    if hasFailed { throw ExitCode.refused }
  }

  /// Plays a flow. Returns whether it went as expected.
  private func play(_ path: String) async throws -> Bool {
    let flow = try Flow(try TextFile.read(path))
    let comparison: FlowComparison
    if let socket = global.socket {
      guard flow.configuration == nil else {
        throw Failure("\(path) has a configuration of its own; leave out --socket")
      }
      comparison = try await Self.compare(flow, socket)
    } else {
      let daemon = try PrivateDaemon(configuration: flow.configuration)
      try await daemon.waitUntilReady()
      comparison = try await Self.compare(flow, daemon.socket)
      withExtendedLifetime(daemon) {}
    }
    try await report(path, comparison)
    return comparison.differences == 0
  }

  private static func compare(_ flow: Flow, _ socket: String) async throws -> FlowComparison {
    let player = FlowPlayer(flow, path: socket)
    try await player.play()
    return FlowComparison(flow.lines, player.messages, player.variables)
  }

  // MARK: Output

  private func report(_ path: String, _ comparison: FlowComparison) async throws {
    let count = comparison.differences
    if global.json {
      let differences = comparison.differing
      return Output.line(
        RESPValue.object(["flow": path, "passed": count == 0, "differences": differences]).json)
    }
    guard !quiet || count > 0 else { return }
    let style = Output.style
    for line in comparison.timeline(style) {
      if pace > .zero { try await Task.sleep(for: pace) }
      Output.line(line)
    }
    let result =
      count == 0
      ? style.green("as expected")
      : style.red(count == 1 ? "1 line differs" : "\(count) lines differ")
    Output.line("\(path.printable): \(result)\n")
  }
}

extension PrivateDaemon {
  /// Waits until the daemon answers; throws its log if it ends instead.
  func waitUntilReady() async throws {
    while true {
      do {
        _ = try await FlowClient.open(socket).send(["PING"])
        return
      } catch {
        if let log = ending() { throw Failure("countdownd did not start:\n\(log)") }
        try await Task.sleep(for: .milliseconds(5))
      }
    }
  }
}

extension FlowComparison {
  /// The maximum number of events shown where `…` allows any.
  private static let maximumPassed = 3

  /// Returns the flow as it went: `-` before missing lines, `+` before unexpected ones.
  func timeline(_ style: Style) -> [String] {
    var (lines, passed): ([String], Int) = ([], 0)
    for step in steps {
      if case .passed(let message) = step {
        guard !message.needsNoLine else { continue }
        passed += 1
        if passed <= Self.maximumPassed {
          lines.append(style.dim("  " + message.line(message.summary)))
        }
        continue
      }
      if passed > Self.maximumPassed {
        lines.append(style.dim("          and \(passed - Self.maximumPassed) more"))
      }
      passed = 0
      switch step {
      case .line(let line):
        lines.append(line.isComment ? style.dim("  " + line.text) : "  " + line.text)
      case .missing(let line): lines.append(style.red("- " + line.text))
      case .unexpected(let message): lines.append(style.green("+ " + message.line(message.text)))
      case .passed: break
      }
    }
    return lines
  }

  var differing: [String] {
    steps.compactMap { step in
      switch step {
      case .missing(let line): "- " + line.text
      case .unexpected(let message): "+ " + message.line(message.text)
      case .line, .passed: nil
      }
    }
  }
}

extension FlowMessage {
  /// Returns a text with the time of the message, as in a flow.
  fileprivate func line(_ text: String) -> String {
    let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1_000)
    var fraction = String(String(rest + 1_000).dropFirst())
    while fraction.last == "0" { fraction.removeLast() }
    let time = fraction.isEmpty ? "\(seconds)s" : "\(seconds).\(fraction)s"
    return time.padded(to: 6) + " " + text
  }
}

extension Flow.Line {
  fileprivate var isComment: Bool { text.drop(while: \.isWhitespace).first == "#" }
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(width - count, 0))
  }
}
