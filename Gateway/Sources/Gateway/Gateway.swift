import CountdownClient
import FoundationEssentials
import HTTPTypes
import Hummingbird
import Logging
import ServiceLifecycle
import Synchronization

/// The gateway between browsers and countdownd.
public struct Gateway: Sendable {
  /// Where to listen.
  public enum Address: Sendable {
    case host(String, port: Int)
    /// A socket that systemd has opened.
    case descriptor(Int32)
  }

  public struct Options: Sendable {
    public var socket = Client.defaultPath
    public var listen = Address.host("127.0.0.1", port: 8_787)
    public var allowedHosts: Set<String> = ["localhost", "127.0.0.1", "[::1]"]
    public var allowedOrigins: Set<String> = []
    /// The file of ticket keys. Without one, there are no tickets.
    public var ticketKeys: String?
    /// The file of the server key. Without one, `POST` is off.
    public var serverKey: String?
    public var hasDashboard = false
    /// Where `/metrics` and the dashboard are; nil: nowhere.
    public var admin: Address?
    /// Whether to take the client's address from the `X-Forwarded-For` of a proxy in front.
    public var trustsForwardedFor = false
    public var mostConnections = 20_000
    public var mostStreamsPerTicket = 4
    public var mostStreamsPerAddress = 64

    public init() {}
  }

  private let options: Options
  private let tickets: KnownTickets?
  private let serverKey: ServerKey?
  private let logger: Logger
  private let daemon: Daemon
  private let hub: Hub
  private let metrics: Cached<String>
  private let readiness: Cached<Bool>
  private let revocations: Revocations
  private let figures = Figures()
  private let dashboard: Dashboard
  private let perTicket = RateLimit(burst: 20, perSecond: 5)
  private let perAddress = RateLimit(burst: 200, perSecond: 50)

  /// - Throws: `StartError`.
  public init(_ options: Options, logger: Logger) throws {
    self.options = options
    self.logger = logger
    tickets = try options.ticketKeys.map { file throws(StartError) in
      KnownTickets(try TicketKeys(file: file))
    }
    serverKey = try options.serverKey.map { file throws(StartError) in try ServerKey(file: file) }
    let daemon = Daemon(socket: options.socket)
    self.daemon = daemon
    var limits = Hub.Limits()
    limits.streamsPerTicket = options.mostStreamsPerTicket
    limits.streamsPerAddress = options.mostStreamsPerAddress
    hub = Hub(daemon, figures, limits: limits)
    revocations = Revocations(daemon)
    metrics = Cached { try await daemon.ask(["METRICS"]).string ?? "" }
    readiness = Cached { try await daemon.ask(["PING"]).string == "PONG" }
    dashboard = Dashboard(daemon)
  }

  /// Runs until SIGTERM or SIGINT.
  ///
  /// - Parameter isListening: called once connections are accepted, with the ports for everybody
  ///   and for operators.
  public func run(
    isListening: @escaping @Sendable (_ port: Int?, _ admin: Int?) -> Void = { _, _ in }
  ) async throws {
    let ports = Mutex<[Bool: Int?]>([:])
    let admin = options.admin
    let listens = { @Sendable (isAdmin: Bool, port: Int?) in
      let all = ports.withLock { ports in
        ports.updateValue(port, forKey: isAdmin)
        return ports
      }
      if all.count == (admin == nil ? 1 : 2) { isListening(all[false] ?? nil, all[true] ?? nil) }
    }
    var services: [any Service] = [
      HTTPServer(
        address: options.listen, responder: router.buildResponder(), logger: logger,
        isListening: { listens(false, $0) }, mostConnections: options.mostConnections)
    ]
    if let admin {
      services.append(
        HTTPServer(
          address: admin, responder: adminRouter.buildResponder(), logger: logger,
          isListening: { listens(true, $0) }, mostConnections: Self.mostAdminConnections))
    }
    // Services end in the reverse order: streams first.
    let group = ServiceGroup(
      configuration: .init(
        services: services + [hub], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
    try await group.run()
    await daemon.client.close()
  }

  // MARK: Routes

  private static let mostAdminConnections = 256

  /// The routes for operators of the daemon, which no page of another origin reads.
  private var adminRouter: Router<RequestFacts> {
    let router = Router(context: RequestFacts.self)
    router.add(
      middleware: Doorman(hosts: options.allowedHosts, origins: nil, figures: figures))
    router.page("metrics") { _, _ in
      text(
        try await metrics.value + figures.text(streams: hub.streamCount),
        type: "text/plain; version=0.0.4; charset=utf-8")
    }
    if options.hasDashboard { dashboard.add(to: router) }
    return router
  }

  private var router: Router<RequestFacts> {
    let router = Router(context: RequestFacts.self)
    router.add(
      middleware: Doorman(
        hosts: options.allowedHosts, origins: options.allowedOrigins, figures: figures))
    router.page("healthz") { _, _ in text("ok\n") }
    router.page("readyz") { _, _ in
      guard try await readiness.value else { throw Problem.daemonDown("countdownd is not ready") }
      return text("ok\n")
    }
    router.page("openapi.json") { request, _ in Page.openapi.response(to: request) }
    for (file, page) in Page.components {
      router.page("components/\(file)") { request, _ in page.response(to: request) }
      router.page("components/\(Client.version)/\(file)") { request, _ in
        page.response(to: request, isForever: true)
      }
    }
    router.route(
      "v1/events",
      [
        .get: { request, context in try await events(request, context) },
        // Opens no stream.
        .head: { request, context in
          _ = try await ticket(request, context)
          return Response(status: .ok, headers: Self.streamHeaders)
        },
        .options: { _, _ in preflight },
      ])
    let readView: Handler = { request, context in try await view(request, context) }
    router.route(
      "v1/views/:alias",
      [
        .get: readView, .head: readView, .options: { _, _ in preflight },
      ])
    if let serverKey {
      router.route(
        "v1/commands",
        [.post: { request, context in try await command(request, context, serverKey) }])
      router.route(
        "v1/revoke", [.post: { request, context in try await revoke(request, context, serverKey) }])
    }
    return router
  }

  private func text(_ text: String, type: String = "text/plain; charset=utf-8") -> Response {
    Response(
      status: .ok, headers: [.contentType: type, .cacheControl: "no-store"],
      body: .init(byteBuffer: ByteBuffer(string: text)))
  }

  private func json(_ value: RESPValue) -> Response {
    text(value.json + "\n", type: "application/json")
  }

  private var preflight: Response {
    Response(
      status: .noContent,
      headers: [
        .accessControlAllowMethods: "GET, HEAD", .accessControlMaxAge: "600",
        .accessControlAllowHeaders: "Authorization, Last-Event-ID",
      ])
  }

  // MARK: Pages

  private var now: Int { Int(Date.now.timeIntervalSince1970) }

  private func ticket(
    _ request: Request, _ context: RequestFacts
  ) async throws -> Ticket {
    guard let tickets else { throw Problem.ticket("the gateway runs without --ticket-keys") }
    guard let text = request.ticket else {
      throw Problem.ticket("send a ticket: Authorization: Bearer …, or the cookie countdown-ticket")
    }
    let ticket = try tickets.ticket(String(text), now: now)
    // Each request here asks the daemon; other routes for pages ask at most once per second.
    guard perTicket.take(ticket.id), perAddress.take(address(request, context)) else {
      throw Problem(.tooManyRequests, "too many requests in a row; slow down", retryAfter: 1)
    }
    try await revocations.check(ticket)
    return ticket
  }

  private func events(_ request: Request, _ context: RequestFacts) async throws -> Response {
    let ticket = try await ticket(request, context)
    context.opened.stream = try await hub.open(
      ticket, now: now, from: address(request, context), after: request.headers[.lastEventID],
      on: context.channel)
    return Response(status: .ok, headers: Self.streamHeaders)
  }

  private static let streamHeaders: HTTPFields = [
    .contentType: "text/event-stream", .cacheControl: "no-store", .accelBuffering: "no",
  ]

  private func address(_ request: Request, _ context: RequestFacts) -> String {
    if options.trustsForwardedFor, let list = request.headers[.forwardedFor],
      // The proxy appends the address that it sees; clients can forge the addresses before it.
      let last = list.split(separator: ",").last
    {
      return String(decoding: last.utf8.filter { $0 > 0x20 }, as: UTF8.self)
    }
    return context.channel.remoteAddress?.ipAddress ?? ""
  }

  private func view(_ request: Request, _ context: RequestFacts) async throws -> Response {
    let ticket = try await ticket(request, context)
    let alias = context.parameters.get("alias") ?? ""
    guard let channel = ticket.watch[alias].flatMap({ EntityChannel($0) }) else {
      throw Problem(.forbidden, "the ticket has no channel of this alias")
    }
    let reply = try await daemon.ask(channel.get)
    guard !reply.isNull else { throw Problem(.notFound, "there is nothing of this alias now") }
    return json(reply.page(alias: alias, of: channel.kind))
  }

  // MARK: Servers

  /// The commands that a server may send: commands on entities, and queries.
  private static let families: Set = [
    "COUNTDOWN", "HUD", "TIMER", "THROTTLE", "ONCE", "GATE", "DEBOUNCE", "SCOPE", "NAV", "PAGE",
    "EVENTS", "PING", "TIME", "DBSIZE", "INFO", "METRICS",
  ]

  private func command(
    _ request: Request, _ context: RequestFacts, _ key: ServerKey
  ) async throws -> Response {
    let words: [Word]? = try await decode(request, context, key)
    guard let words, let name = words.first?.text.uppercased() else {
      throw Problem(
        .badRequest, "send an array of texts and numbers: [\"COUNTDOWN\",\"GET\",\"key\"]")
    }
    guard Self.families.contains(name) else {
      throw Problem(
        .forbidden,
        "this command is not for the gateway; it takes "
          + Self.families.sorted().joined(separator: ", "))
    }
    if let problem = SharedConnection.problem(words.map(\.text)) { throw problem }
    return json(try await daemon.ask(words.map(\.text)))
  }

  /// Ends the streams of a user, and refuses the tickets that the user has until now.
  private func revoke(
    _ request: Request, _ context: RequestFacts, _ key: ServerKey
  ) async throws -> Response {
    let user: Revoked? = try await decode(request, context, key)
    guard let user, (1...256).contains(user.sub.utf8.count) else {
      throw Problem(.badRequest, "send an object with the user of the tickets: {\"sub\":\"42\"}")
    }
    try await revocations.revoke(user.sub, now: now)
    hub.end(of: user.sub)
    return Response(status: .noContent, headers: [.cacheControl: "no-store"])
  }

  private struct Revoked: Decodable {
    let sub: String
  }

  /// Returns the body of a request from a server; nil if it is something else.
  private func decode<Body: Decodable>(
    _ request: Request, _ context: RequestFacts, _ key: ServerKey
  ) async throws -> Body? {
    // Browsers send these headers, and no page may hold the key.
    guard request.headers[.origin] == nil, request.headers[.secFetchSite] == nil else {
      throw Problem(.forbidden, "this address is for servers, not for browsers")
    }
    guard let text = request.bearer, key.matches(text) else {
      throw Problem(.unauthorized, "send the server key: Authorization: Bearer …")
    }
    guard request.headers[.contentType]?.hasPrefix("application/json") == true else {
      throw Problem(.unsupportedMediaType, "send application/json")
    }
    let body = try await request.body.collect(upTo: context.maxUploadSize)
    return try? JSONDecoder().decode(Body.self, from: Data(body.readableBytesView))
  }

  private struct Word: Decodable {
    let text: String

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let text = try? container.decode(String.self) {
        self.text = text
      } else if let number = try? container.decode(Int.self) {
        text = "\(number)"
      } else {
        text = "\(try container.decode(Double.self))"
      }
    }
  }
}
