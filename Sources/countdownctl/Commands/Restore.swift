import ArgumentParser
import CountdownConfiguration
import CountdownStore

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Continue with the state of a backup.",
    discussion: """
      Checks FILE, stops countdownd.socket and countdownd.service, copies FILE into the state \
      directory under the next number, and starts both again. The state from before stays there. \
      With --state-directory it leaves the units alone, and no daemon may use that directory.

      Exit status 65 if FILE is damaged, and 1 if it cannot be restored; then the units are as they \
      were. Only events that cannot be read are reported and left out.

      Examples:
        countdownctl restore /var/backups/countdownd.db
        countdownctl restore countdownd.db --state-directory ./state
      """)

  @Argument(help: "A file that `countdownctl backup` has made.", completion: .file())
  var file: String

  @Option(
    help: .init(
      "The state directory (default: \(Configuration().stateDirectory), and its service).",
      valueName: "path"), completion: .directory)
  var stateDirectory: String?
  @OptionGroup var global: GlobalOptions

  func run() async throws {
    try Self.check(file)
    let service = stateDirectory == nil ? Service.installed : nil
    let wasActive = service?.isActive ?? false
    service?.stop()
    do throws(StoreError) {
      let path = try StateRestore.restore(
        file, to: stateDirectory ?? Configuration().stateDirectory)
      Output.line(global.json ? "{\"state\":\"\(path.printable)\"}" : "state: \(path.printable)")
    } catch {
      if wasActive { _ = service?.start() }
      throw Failure(error, inUse: "; stop it first")
    }
    guard service?.start() ?? true else {
      throw Failure("the service does not start: systemctl status countdownd")
    }
  }

  /// Throws an exit status, and prints why, unless a backup is sound.
  static func check(_ file: String) throws {
    let backup: StateInspection
    do throws(StoreError) {
      backup = try StateInspection(file, isThorough: true)
    } catch {
      throw Failure(error, whenCorrupt: .damaged)
    }
    let problems = backup.product.isEmpty ? ["\(file) is empty"] : backup.damage
    for problem in problems { Output.error(problem, code: "DAMAGE") }
    if !problems.isEmpty { throw ExitCode.damaged }
    for lost in backup.lostEvents {
      Output.error("\(lost): the daemon continues without them", code: "DAMAGE")
    }
  }
}

/// The units of the daemon, as systemctl knows them.
private struct Service {
  private static let units = ["countdownd.socket", "countdownd.service"]

  /// Nil if there is no such service.
  static var installed: Service? {
    systemctl(["cat", "countdownd.service"]) ? Service() : nil
  }

  /// Whether any of the units is active.
  var isActive: Bool { Self.systemctl(["is-active"] + Self.units) }

  func stop() { _ = Self.systemctl(["stop"] + Self.units) }

  /// Starts the units, and returns whether the daemon answers.
  func start() -> Bool {
    _ = Self.systemctl(["reset-failed"] + Self.units)
    return Self.systemctl(["start"] + Self.units)
  }

  private static func systemctl(_ words: [String]) -> Bool {
    ChildProcess("systemctl", ["systemctl"] + words, output: "/dev/null")?.status() == 0
  }
}
