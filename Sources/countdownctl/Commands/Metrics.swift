import ArgumentParser
import CountdownClient

struct Metrics: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Print figures of the daemon for Prometheus.",
    discussion: """
      The text format of Prometheus, version 0.0.4, with --json too. It has no keys.

      With --textfile the text replaces FILE in one step, for node_exporter's textfile collector. \
      Its name ends with .prom there. The text then begins with countdownd_up: 1, or 0 and nothing \
      else if the daemon gives no figures within 5 s (--wait), with the exit status of the error.

      Examples:
        countdownctl metrics
        countdownctl metrics --textfile /var/lib/prometheus/node-exporter/countdownd.prom
      """)

  @Option(help: "Write the text to this file.", completion: .file())
  var textfile: String?
  @OptionGroup var global: GlobalOptions

  var patience: Duration? { global.wait ?? (textfile == nil ? nil : .seconds(5)) }

  func run(_ session: Session) async throws {
    let text = try await session.reply(["METRICS"]).string ?? ""
    guard let textfile else { return Output.bytes(Array(text.utf8)) }
    try Self.write(isUp: true, text, to: textfile)
  }

  /// Replaces the old figures, which the collector would continue to serve.
  func failed() throws {
    if let textfile { try Self.write(isUp: false, "", to: textfile) }
  }

  private static func write(isUp: Bool, _ figures: String, to textfile: String) throws {
    let up = """
      # HELP countdownd_up 1 if countdownd gave its figures.
      # TYPE countdownd_up gauge
      countdownd_up \(isUp ? 1 : 0)

      """
    // The collector runs as another user.
    let file = try FileBeingWritten(textfile, mode: 0o644)
    try file.write(Array((up + figures).utf8))
    try file.finish()
  }
}
