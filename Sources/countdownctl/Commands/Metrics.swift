import ArgumentParser
import CountdownClient

struct Metrics: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Print figures of the daemon for Prometheus.",
    discussion: """
      The text format of Prometheus, version 0.0.4, with --json too. It has no keys.

      With --textfile the text replaces FILE in one step, for node_exporter's textfile collector. \
      Its name ends with .prom there.

      Examples:
        countdownctl metrics
        countdownctl metrics --textfile /var/lib/prometheus/node-exporter/countdownd.prom
      """)

  @Option(help: "Write the text to this file.", completion: .file())
  var textfile: String?
  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    let text = Array((try await session.reply(["METRICS"]).string ?? "").utf8)
    guard let textfile else { return Output.bytes(text) }
    do {
      // The collector runs as another user.
      let file = try FileBeingWritten(textfile, mode: 0o644)
      do {
        try file.write(text)
        try file.finish()
      } catch {
        file.remove()
        throw error
      }
    } catch let error as FileError {
      Output.error(error.text, code: "FILE")
      throw ExitCode.refused
    }
  }
}
