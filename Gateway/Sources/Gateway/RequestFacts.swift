import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// The context of a request: the connection on which it arrived.
struct RequestFacts: RequestContext {
  var coreContext: CoreRequestContextStorage
  let channel: any Channel
  /// The stream that a handler has opened: it follows the response.
  let opened = Opened()

  final class Opened: Sendable {
    private let box = Mutex<EventStream?>(nil)

    var stream: EventStream? {
      get { box.withLock { $0 } }
      set { box.withLock { $0 = newValue } }
    }
  }

  init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    channel = source.channel
  }

  static let longestBody = 64 << 10
  var maxUploadSize: Int { Self.longestBody }
}

extension HTTPField.Name {
  static let secFetchSite = Self("Sec-Fetch-Site")!
  static let lastEventID = Self("Last-Event-ID")!
  static let accelBuffering = Self("X-Accel-Buffering")!
  static let forwardedFor = Self("X-Forwarded-For")!
  static let referrerPolicy = Self("Referrer-Policy")!
}

extension Request {
  /// The token after `Bearer`; nil without one.
  var bearer: Substring? {
    guard let field = headers[.authorization] else { return nil }
    let words = field.split(separator: " ", maxSplits: 1)
    return words.count == 2 && words[0].lowercased() == "bearer" ? words[1] : nil
  }

  /// The ticket: the token after `Bearer`, or the cookie `countdown-ticket`; nil without both.
  var ticket: Substring? {
    if headers[.authorization] != nil { return bearer }
    let cookies = headers[values: .cookie].flatMap { $0.split(separator: ";") }
    return cookies.lazy.map { $0.drop { $0 == " " } }
      .first { $0.hasPrefix("countdown-ticket=") }?.dropFirst("countdown-ticket=".count)
  }

  /// The host that the client asked for, in lower case, without the port.
  var host: String? {
    guard let authority = head.authority?.lowercased() else { return nil }
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
      return String(authority[...end])
    }
    return String(authority.prefix { $0 != ":" })
  }

  /// Returns whether an origin is the gateway's own, as for the pages that it serves.
  func isSameOrigin(_ origin: String) -> Bool {
    guard let authority = head.authority?.lowercased() else { return false }
    return ["http://", "https://"].contains { $0 + authority == origin }
  }
}

typealias Handler = @Sendable (Request, RequestFacts) async throws -> Response

extension Router<RequestFacts> {
  static var methods: [HTTPRequest.Method] {
    [.get, .head, .post, .put, .delete, .patch, .options, .trace, .connect]
  }

  /// Adds an address with its methods; refuses the others.
  func route(_ path: RouterPath, _ handlers: [HTTPRequest.Method: Handler]) {
    let allow = handlers.keys.map(\.rawValue).sorted().joined(separator: ", ")
    for method in Self.methods {
      on(
        path, method: method,
        use: handlers[method] ?? { _, _ in
          var problem = Problem(.methodNotAllowed, "this address takes \(allow)")
          problem.allow = allow
          throw problem
        })
    }
  }

  /// Adds an address that is only read.
  func page(_ path: RouterPath, _ handler: @escaping Handler) {
    route(path, [.get: handler, .head: handler])
  }
}

/// Checks host and origin, turns errors into problems, and sets the headers of all responses.
struct Doorman: RouterMiddleware {
  /// The hosts that clients may ask for.
  let hosts: Set<String>
  /// The origins whose pages may read; nil: only the gateway's own pages may.
  let origins: Set<String>?
  let figures: Figures

  func handle(
    _ request: Request, context: RequestFacts,
    next: (Request, RequestFacts) async throws -> Response
  ) async throws -> Response {
    var response: Response
    let origin = request.headers[.origin]
    do {
      try check(request)
      response = try await next(request, context)
    } catch {
      let problem = Problem(error)
      if problem.status == .internalServerError {
        context.logger.error("a request failed", metadata: ["error": "\(error)"])
      }
      figures.hasRefused(with: problem.status.code)
      response = problem.response
    }
    if let origin, origins?.contains(origin) == true {
      response.headers[.accessControlAllowOrigin] = origin
      // A ticket may be in a cookie.
      response.headers[.accessControlAllowCredentials] = "true"
    }
    // Each answer depends on the origin, if only by a refusal; files also on the encoding.
    response.headers[.vary] =
      response.headers[.eTag] == nil ? "Origin" : "Origin, Accept-Encoding"
    response.headers[.xContentTypeOptions] = "nosniff"
    response.headers[.referrerPolicy] = "no-referrer"
    if response.headers[.contentSecurityPolicy] == nil {
      response.headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
    }
    return request.method == .head ? response.createHeadResponse() : response
  }

  private func check(_ request: Request) throws(Problem) {
    // Prevents DNS rebinding, by which a page of another site could read everything.
    guard let host = request.host, hosts.contains(host) else {
      throw Problem(.misdirectedRequest, "this host is not in --allowed-host")
    }
    guard let origin = request.headers[.origin], !request.isSameOrigin(origin) else { return }
    guard let origins else {
      throw Problem(.forbidden, "this address is not for other origins")
    }
    guard origins.contains(origin) else {
      throw Problem(.forbidden, "this origin is not in --allowed-origin")
    }
  }
}
