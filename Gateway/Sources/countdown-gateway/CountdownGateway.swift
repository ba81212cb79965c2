import ArgumentParser
import CountdownClient
import Gateway
import Logging

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

@main
struct CountdownGateway: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "countdown-gateway",
    abstract: "Serve events of countdownd to browsers, and its figures to Prometheus.",
    discussion: """
      Put a reverse proxy with TLS in front of it. Files of keys can be systemd credentials, too: \
      ticket-keys and server-key.

      Examples:
        countdown-gateway --ticket-keys keys --allowed-origin http://127.0.0.1:5000
        countdown-gateway --admin-listen 127.0.0.1:8789 --dashboard
      """,
    version: Client.version, subcommands: [IssueTicket.self])

  @Option(help: "The socket of countdownd.")
  var socket = Client.defaultPath

  @Option(
    help: .init(
      "Where to listen, unless systemd hands over a socket. Port 0 takes any free one.",
      valueName: "host:port"))
  var listen = "127.0.0.1:8787"

  @Option(
    help: .init(
      "Where to serve /metrics and the dashboard, unless systemd hands over a socket. Without it, "
        + "they are not served.", valueName: "host:port"))
  var adminListen: String?

  @Option(
    name: .customLong("allowed-host"),
    help: .init(
      "A host that clients may ask for besides localhost, 127.0.0.1 and [::1], without the port; "
        + "repeat it for more.", valueName: "name"))
  var allowedHosts: [String] = []

  @Option(
    name: .customLong("allowed-origin"),
    help: .init(
      "An origin whose pages may read events, such as https://app.example; repeat it for more.",
      valueName: "origin"))
  var allowedOrigins: [String] = []

  @Option(
    help: .init(
      "The keys of tickets: KID SECRET in each line. Without it, there are no streams.",
      valueName: "file"))
  var ticketKeys: String?

  @Option(
    help: .init(
      "The key for POST /v1/commands. Without it, there is no such route.", valueName: "file"))
  var serverKey: String?

  @Flag(help: "Serve the dashboard, where --admin-listen says. It asks for no ticket.")
  var dashboard = false

  @Flag(help: "Take the client's address from X-Forwarded-For: only behind a proxy that sets it.")
  var trustForwardedFor = false

  @Option(
    help: .init("Connections at a time; each takes a file descriptor.", valueName: "number"))
  var maxConnections = 20_000

  @Option(help: .init("Streams of one ticket at a time.", valueName: "number"))
  var maxStreamsPerTicket = 4

  @Option(
    help: .init(
      "Streams of one client address at a time: raise it for offices behind one address.",
      valueName: "number"))
  var maxStreamsPerAddress = 64

  func validate() throws {
    _ = try address(listen)
    _ = try adminListen.map(address)
    for limit in [maxConnections, maxStreamsPerTicket, maxStreamsPerAddress]
    where !(1...1_000_000).contains(limit) {
      throw ValidationError("'\(limit)' is not a limit; write 1 to 1000000")
    }
    for origin in allowedOrigins {
      let parts = origin.split(separator: "/", omittingEmptySubsequences: false)
      guard parts.count == 3, ["http:", "https:"].contains(parts[0]), parts[1].isEmpty,
        !parts[2].isEmpty, origin == origin.lowercased()
      else {
        throw ValidationError(
          "'\(origin)' is not an origin; write https://HOST or https://HOST:PORT, in small letters")
      }
    }
  }

  private func address(_ text: String) throws -> Gateway.Address {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...])
    else { throw ValidationError("'\(text)' is not HOST:PORT") }
    let host = text[..<colon]
    return .host(
      host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : String(host), port: Int(port))
  }

  func run() async throws {
    LoggingSystem.bootstrap(StreamLogHandler.standardError)
    var options = Gateway.Options()
    options.socket = socket
    let descriptors = try Activation.descriptors
    options.listen = try descriptors.everybody.map { .descriptor($0) } ?? address(listen)
    options.admin = try descriptors.operators.map { .descriptor($0) } ?? adminListen.map(address)
    if dashboard, options.admin == nil {
      throw ValidationError(
        "--dashboard needs --admin-listen HOST:PORT, or countdown-gateway-admin.socket")
    }
    options.allowedHosts.formUnion(allowedHosts.map { $0.lowercased() })
    options.allowedOrigins = Set(allowedOrigins)
    options.ticketKeys = ticketKeys ?? Activation.credential("ticket-keys")
    options.serverKey = serverKey ?? Activation.credential("server-key")
    options.hasDashboard = dashboard
    options.trustsForwardedFor = trustForwardedFor
    options.mostConnections = maxConnections
    options.mostStreamsPerTicket = maxStreamsPerTicket
    options.mostStreamsPerAddress = maxStreamsPerAddress
    var logger = Logger(label: "countdown-gateway")
    logger.logLevel = .info
    do {
      let gateway = try Gateway(options, logger: logger)
      try await gateway.run { [logger, options] port, admin in
        var places: Logger.Metadata = ["port": "\(port ?? 0)"]
        if case .host(let host, _) = options.listen { places["host"] = "\(host)" }
        if let admin { places["admin_port"] = "\(admin)" }
        logger.info("listens", metadata: places)
        Activation.isReady()
      }
    } catch let error as StartError {
      throw ValidationError("\(error)")
    }
  }
}
