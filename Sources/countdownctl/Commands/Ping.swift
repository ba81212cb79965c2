import ArgumentParser
import CountdownClient
import Wire

struct Ping: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Check that the daemon answers, and how fast.",
    discussion: """
      Exit status, for scripts and health checks: 0 if it answers; 3 if it cannot be reached or \
      does not answer within 5 s (--wait); 4 if it answers with an error or closes the connection.
      """)

  @OptionGroup var global: GlobalOptions

  var patience: Duration? { global.wait ?? .seconds(5) }

  func run(_ session: Session) async throws {
    // The connection is open by now, so the time to connect is not included.
    let clock = ContinuousClock()
    let start = clock.now
    let reply = try await session.reply(["PING"]).string ?? ""
    let duration = clock.now - start
    let microseconds = Int((duration.inSeconds * 1e6).rounded())
    global.show(
      .object(["reply": reply, "socket": session.path, "round_trip_us": microseconds]),
      ["\(reply.printable)  from \(session.path.printable) in \(microseconds) µs"])
  }
}
