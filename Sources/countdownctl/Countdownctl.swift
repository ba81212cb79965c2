import ArgumentParser
import CountdownClient
import Dispatch
import Glibc
import Wire

/// Runs the program as countdownctl.
package func runCountdownctl() -> Never {
  Task {
    await Countdownctl.main()
    exit(0)
  }
  dispatchMain()
}

struct Countdownctl: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Start, watch and manage countdowns, HUDs and timers.",
    discussion: """
      Examples:
        countdownctl start +4512345678 90s
        countdownctl start +4512345678 --policy login
        countdownctl watch
        countdownctl top
        countdownctl watch +4512345678 --exit-when-ready && echo 'send again'
        countdownctl list --match '+45*' --json
        countdownctl timer set tea 4m --payload 'tea is ready'
        countdownctl throttle take login:10.0.0.7 --burst 5 --rate 5/10m
        countdownctl backup /var/backups/countdownd.db

      A duration is a number with ms, s, m, h or d: 90s, 1h30m, 1.5s, 500ms, 2d.

      Exit status:
        0   done; a start, resend, attempt or other request was accepted
        1   refused (in cooldown), not found, or an error in a file
        2   a request with this --token was accepted before
        3   countdownd could not be reached, or did not answer in time
        4   countdownd answered with another error, or closed the connection
        64  an error in the command line
        65  stored state is damaged

      With --json, errors are one JSON object on standard error: its code is the daemon's error code, \
      or NOTFOUND, FILE, DAMAGE, UNREACHABLE, TIMEOUT, CLOSED, PROTOCOL or USAGE; its message is the \
      text.

      Environment:
        COUNTDOWND_SOCKET  the socket to use without --socket
        NO_COLOR           disable colour if non-empty
      """,
    version: ProductVersion.built,
    groupedSubcommands: [
      CommandGroup(
        name: "Countdown",
        subcommands: [Start.self] + Countdown.commands),
      CommandGroup(
        name: "Timing",
        subcommands: [Timer.self, Throttle.self, Once.self, Gate.self, Debounce.self]),
      CommandGroup(
        name: "User interface",
        subcommands: [HUD.self, Page.self, Navigation.self, Scope.self]),
      CommandGroup(
        name: "Daemon",
        subcommands: [
          Watch.self, Top.self, Monitor.self, Ping.self, Health.self, Info.self, Metrics.self,
          Policy.self, JournalCommand.self, Reload.self, LogLevel.self, Backup.self, Restore.self,
          State.self, Clear.self, Fleet.self, Bench.self, Play.self, SchemaCommand.self, Raw.self,
        ]),
    ])

  @OptionGroup var global: GlobalOptions

  /// The text printed without a subcommand. It fits on one screen.
  private static let firstSteps = """
    Start, watch and manage countdowns, HUDs and timers.

      countdownctl ping                check that the daemon answers
      countdownctl start KEY 90s       start a countdown of 90 seconds
      countdownctl get KEY             show it
      countdownctl watch               watch all countdowns live
      countdownctl list                list them
      countdownctl cancel KEY          cancel one
      countdownctl timer set tea 4m    set a timer
      countdownctl hud show checkout   show a HUD

    countdownctl --help lists all commands; add --help to a command to explain it.
    """

  func run() { Output.line(Self.firstSteps) }

  static func main() async {
    // A closed pipe, as in `countdownctl list | head`, is not an error: see `Output`.
    signal(SIGPIPE, SIG_IGN)
    let arguments = Array(CommandLine.arguments.dropFirst())
    do {
      var command: any ParsableCommand
      do {
        command = try await asyncParseAsRoot(arguments)
      } catch  where exitCode(for: error) == .validationFailure {
        guard let text = UnknownCommand.explanation(of: arguments) else { throw error }
        Output.end(Output.isJSON ? text : "Error: \(text)", status: exitCode(for: error).rawValue)
      }
      if var command = command as? any AsyncParsableCommand {
        try await command.run()
      } else {
        try command.run()
      }
    } catch let failure as Failure {
      Output.error(failure.text, code: failure.code)
      exit(withError: failure.status)
    } catch {
      let status = exitCode(for: error)
      // Messages quote arguments, so `Output` escapes them; help and completion scripts quote none.
      guard status != .success else { exit(withError: error) }
      let text = Output.isJSON ? message(for: error) : fullMessage(for: error)
      Output.end(text, status: status.rawValue)
    }
  }
}

/// The options of every subcommand.
struct GlobalOptions: ParsableArguments {
  static let socketHelp = ArgumentHelp(
    "The daemon's socket (default: $COUNTDOWND_SOCKET, or /run/countdownd/countdownd.sock).",
    valueName: "path")

  static let waitHelp = ArgumentHelp(
    "How long to wait for an answer, then exit status 3 (default: ping 5s, others without limit).",
    valueName: "duration")

  @Option(help: Self.socketHelp, completion: .file())
  var socket: String?

  @Option(help: Self.waitHelp, transform: duration)
  var wait: Duration?

  @Flag(help: "Print JSON, one line for each result, event or error.")
  var json = false

  @Flag(help: "Show generations (fencing tokens) too; --json always has them.")
  var generations = false

  /// Prints a result: as JSON if that is asked for, else as text.
  func show(_ value: @autoclosure () -> RESPValue, _ lines: @autoclosure () -> [String]) {
    Output.lines(json ? [value().json] : lines())
  }
}

/// The exit statuses besides 0 and ArgumentParser's 64 for an error in the command line.
extension ExitCode {
  /// Refused, or not found.
  static let refused = ExitCode(1)
  /// A request with the token of an accepted one.
  static let repeated = ExitCode(2)
  /// countdownd could not be reached, or did not answer in time.
  static let unreachable = ExitCode(3)
  /// countdownd answered with an error, or closed the connection.
  static let serverError = ExitCode(4)
}
