import ArgumentParser
import CountdownClient

struct Ping: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks whether countdownd answers, and how fast.",
    discussion: """
      Exit status 3 when it cannot be reached, or does not answer within 5 s (--wait): good for \
      scripts and health checks.
      """)

  @OptionGroup var global: GlobalOptions

  var patience: Duration? { global.patience ?? .seconds(5) }

  func run(_ session: Session) async throws {
    // The connection is made already: how long that takes is not what is asked here.
    let clock = ContinuousClock()
    let start = clock.now
    let reply = try await session.reply(["PING"]).string ?? ""
    let duration = clock.now - start
    let microseconds = Int((duration.inSeconds * 1e6).rounded())
    if session.json {
      Output.line(
        JSONValue.object([
          .init("reply", .string(reply)), .init("socket", .string(session.path)),
          .init("round_trip_us", .integer(microseconds)),
        ]).text)
    } else {
      Output.line("\(reply.printable)  from \(session.path.printable) in \(microseconds) µs")
    }
  }
}
