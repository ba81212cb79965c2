import HTTPTypes
import Hummingbird
import NIOCore

/// What handlers know of a request beside its text.
struct RequestFacts: RequestContext {
  var coreContext: CoreRequestContextStorage
  let channel: any Channel

  init(source: ApplicationRequestContextSource) {
    coreContext = .init(source: source)
    channel = source.channel
  }

  var maxUploadSize: Int { 64 << 10 }
}

extension HTTPField.Name {
  static let secFetchSite = Self("Sec-Fetch-Site")!
  static let lastEventID = Self("Last-Event-ID")!
  static let accelBuffering = Self("X-Accel-Buffering")!
  static let forwardedFor = Self("X-Forwarded-For")!
  static let referrerPolicy = Self("Referrer-Policy")!
}

extension Request {
  /// What comes after `Bearer`; nil without it.
  var bearer: Substring? {
    guard let field = headers[.authorization] else { return nil }
    let words = field.split(separator: " ", maxSplits: 1)
    return words.count == 2 && words[0].lowercased() == "bearer" ? words[1] : nil
  }

  /// The host that the client asked for, in small letters, without the port.
  var host: String? {
    guard let authority = head.authority?.lowercased() else { return nil }
    if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
      return String(authority[...end])
    }
    return String(authority.prefix { $0 != ":" })
  }

  /// Whether a page that the gateway itself has served sent the request, if it says so.
  func isSameOrigin(_ origin: String) -> Bool {
    guard let authority = head.authority?.lowercased() else { return false }
    return ["http://", "https://"].contains { $0 + authority == origin }
  }
}

/// Turns errors into problems, checks the host and the origin, and sets what all responses have.
struct Doorman: RouterMiddleware {
  let options: Gateway.Options

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
      response = problem.response
    }
    if let origin, options.allowedOrigins.contains(origin) {
      response.headers[.accessControlAllowOrigin] = origin
      response.headers[.vary] = "Origin"
    }
    response.headers[.xContentTypeOptions] = "nosniff"
    response.headers[.referrerPolicy] = "no-referrer"
    if response.headers[.contentSecurityPolicy] == nil {
      response.headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
    }
    return response
  }

  private func check(_ request: Request) throws(Problem) {
    // A page of another site can make its own name lead here, and would read everything.
    guard let host = request.host, options.allowedHosts.contains(host) else {
      throw Problem(.misdirectedRequest, "this host is not in --allowed-host")
    }
    if let origin = request.headers[.origin], !options.allowedOrigins.contains(origin),
      !request.isSameOrigin(origin)
    {
      throw Problem(.forbidden, "this origin is not in --allowed-origin")
    }
  }
}
