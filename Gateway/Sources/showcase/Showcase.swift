import ArgumentParser
import Foundation
import Gateway
import Logging
import ServiceLifecycle

@main
struct Showcase: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "showcase",
    abstract: "Serve a page that shows every kind: a phone, and the daemon beside it.",
    discussion: "It starts a daemon of its own, and ends it.")

  @Argument(help: "The program countdownd.")
  var countdownd: String

  @Option(help: "Where to listen on 127.0.0.1.")
  var port = 8_788

  func run() async throws {
    var logger = Logger(label: "showcase")
    logger.logLevel = .warning
    let daemon = try PrivateDaemon(program: countdownd, configuration: Phone.configuration)
    let phone = Phone(daemon)
    let tickets = Tickets(channels: Phone.channels)
    var options = Gateway.Options()
    options.socket = daemon.socket
    options.listen = .host("127.0.0.1", port: 0)
    options.allowedOrigins = ["http://127.0.0.1:\(port)"]
    options.ticketKeys = try daemon.write(tickets.keys, to: "keys")
    let gateway = GatewayService(gateway: try Gateway(options, logger: logger))
    let site = Site(
      port: port, gatewayPorts: gateway.port.stream, phone: phone, daemon: daemon, tickets: tickets,
      logger: logger)
    let services: [any Service] = [daemon, gateway, phone, site]
    try await ServiceGroup(
      configuration: .init(
        services: services.map {
          .init(service: $0, successTerminationBehavior: .gracefullyShutdownGroup)
        },
        gracefulShutdownSignals: [.sigint, .sigterm, .sighup], logger: logger)
    ).run()
  }
}

/// The gateway, on any free port.
struct GatewayService: Service {
  let gateway: Gateway
  let port = AsyncStream.makeStream(of: Int.self)

  func run() async throws {
    try await gateway.run { [port] number, _ in port.continuation.yield(number ?? 0) }
  }
}
