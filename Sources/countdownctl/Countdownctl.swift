import ArgumentParser
import CountdownClient
import Dispatch
import Glibc

/// The program under the name countdownctl.
package func runCountdownctl() -> Never {
  Task {
    await Countdownctl.main()
    exit(0)
  }
  dispatchMain()
}

struct Countdownctl: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "countdownctl",
    abstract: "Starts, watches and manages the countdowns, HUDs and timers of countdownd.",
    discussion: """
      Examples:
        countdownctl start +4512345678 --count 60 --title '%ds to go'
        countdownctl resend +4512345678
        countdownctl start +4512345678 --policy login
        countdownctl policy explain login
        countdownctl watch
        countdownctl watch +4512345678 --exit-when-ready && echo 'send again'
        countdownctl list --match '+45*' --json
        countdownctl timer set tea 4m --payload 'tea is ready'
        countdownctl throttle take login:10.0.0.7 --burst 5 --rate 5/10m
        countdownctl backup /var/backups/countdownd.db
        countdownctl raw COMMAND COUNT

      Durations are an integer with ms, s, m, h or d; a bare integer is milliseconds.

      Exit status:
        0   done; a start, resend, attempt or other request was accepted
        1   refused (in cooldown), not found, or an error in a file
        2   a start or resend with this --token was accepted before: send nothing
        3   countdownd could not be reached, or did not answer in time
        4   countdownd answered with another error, or closed the connection
        64  an error in the command line

      Environment:
        COUNTDOWND_SOCKET  the socket to use without --socket
        NO_COLOR           disable colour if non-empty
      """,
    version: CountdownClient.version,
    subcommands: [
      Ping.self, Start.self, Resend.self, Refund.self, Attempt.self, Pass.self,
      GetCommand<Countdown>.self, VerbCommand<Countdown.Cancel>.self,
      VerbCommand<Countdown.Pause>.self, VerbCommand<Countdown.Resume>.self,
      Countdown.Retime.self, Policy.self, Watch.self, HUD.self, Timer.self, Throttle.self,
      Once.self, Gate.self, Debounce.self, Scope.self, Navigation.self, Page.self,
      ListCommand<Countdown>.self, Info.self, Backup.self, Monitor.self, Reload.self,
      Raw.self, Bench.self,
    ])

  @OptionGroup var global: GlobalOptions

  static func main() async {
    // A reader that stops, as in `countdownctl list | head`, is not an error: see `Output`.
    signal(SIGPIPE, SIG_IGN)
    do {
      var command = try parseAsRoot()
      if var command = command as? any AsyncParsableCommand {
        try await command.run()
      } else {
        try command.run()
      }
    } catch {
      // Messages quote arguments; help and completion scripts do not.
      guard exitCode(for: error) != .success else { exit(withError: error) }
      Output.end(fullMessage(for: error), status: exitCode(for: error).rawValue)
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

  @Option(help: Self.waitHelp, transform: DurationArgument.init(parsing:))
  var wait: DurationArgument?

  @Flag(help: "Print one line of JSON per result or event, with the protocol's field names.")
  var json = false

  var patience: Duration? { wait?.duration }
}

/// The exit statuses besides 0 and ArgumentParser's 64 for an error in the command line.
extension ExitCode {
  /// Refused, or not found.
  static let refused = ExitCode(1)
  /// A repetition of a start that was accepted, by its token: send nothing.
  static let repeated = ExitCode(2)
  /// countdownd could not be reached, or did not answer in time.
  static let unreachable = ExitCode(3)
  /// countdownd answered with an error, or closed the connection.
  static let serverError = ExitCode(4)
}
