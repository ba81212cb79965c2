import ArgumentParser
import CountdownClient

struct Ping: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Asks whether countdownd answers, and how fast.",
    discussion: "Exit status 3 when it cannot be reached: good for scripts and health checks.")

  @OptionGroup var global: GlobalOptions

  func run(_ session: Session) async throws {
    // The first one makes the connection, which is not what is asked here.
    _ = try await session.client.send("PING")
    let clock = ContinuousClock()
    let start = clock.now
    let reply = try await session.client.send("PING").string ?? ""
    let duration = clock.now - start
    let microseconds = Int((duration.inSeconds * 1e6).rounded())
    if session.json {
      Output.line(
        JSONValue.object([
          .init("reply", .string(reply)), .init("socket", .string(session.path)),
          .init("round_trip_us", .integer(microseconds)),
        ]).text)
    } else {
      Output.line("\(reply.printable)  from \(session.path) in \(microseconds) µs")
    }
  }
}
