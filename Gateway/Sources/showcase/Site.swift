import CountdownClient
import Crypto
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import ServiceLifecycle

/// The app's web server: the page, its tickets, and one route for all buttons.
struct Site: Service {
  let port: Int
  let gatewayPorts: AsyncStream<Int>
  let phone: Phone
  let daemon: PrivateDaemon
  let tickets: Tickets
  let logger: Logger

  private static let folder =
    URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Pages").path

  func run() async throws {
    // The page contains the gateway's address, so the gateway starts first.
    guard let gatewayPort = await gatewayPorts.first(where: { _ in true }) else { return }
    let gateway = "http://127.0.0.1:\(gatewayPort)"
    let app = Application(
      router: router(gateway),
      configuration: .init(address: .hostname("127.0.0.1", port: port)),
      onServerRunning: { [port, daemon] _ in
        let text = """
          The showcase: http://127.0.0.1:\(port)  (Ctrl-C ends it)
          Its daemon: export COUNTDOWND_SOCKET=\(daemon.socket)

          """
        FileHandle.standardOutput.write(Data(text.utf8))
      },
      logger: logger)
    try await app.run()
  }

  private func router(_ gateway: String) -> Router<BasicRequestContext> {
    let router = Router()
    router.add(middleware: Doorman(host: "127.0.0.1:\(port)", gateway: gateway))
    router.add(middleware: FileMiddleware(Self.folder, logger: logger))
    for (path, file) in [("/", "index"), ("gallery", "gallery")] {
      router.get(RouterPath(path)) { _, _ in
        let page = try String(contentsOfFile: Self.folder + "/\(file).html", encoding: .utf8)
          .replacingOccurrences(of: "{gateway}", with: gateway)
        return Response(
          status: .ok, headers: [.contentType: "text/html; charset=utf-8"],
          body: .init(byteBuffer: ByteBuffer(string: page)))
      }
    }
    router.get("ticket") { _, _ in tickets.issue() }
    router.get("state") { _, _ in json(try await phone.state()) }
    router.post("do/kill") { _, _ in
      daemon.kill()
      return json(.null)
    }
    router.post("do/:action") { request, context in
      let input = try await request.decode(as: [String: String].self, context: context)
      let action = try context.parameters.require("action")
      return json(try await phone.perform(action, input) ?? .null)
    }
    return router
  }

  private func json(_ value: RESPValue) -> Response {
    Response(
      status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
      body: .init(byteBuffer: ByteBuffer(string: value.json)))
  }
}

/// Keeps other sites out, and tells browsers what the page may load.
private struct Doorman: RouterMiddleware {
  typealias Context = BasicRequestContext

  let host: String
  let gateway: String

  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    let origin = request.headers[.origin]
    guard request.head.authority == host, origin == nil || origin == "http://\(host)" else {
      throw HTTPError(.forbidden)
    }
    var response: Response
    do {
      response = try await next(request, context)
    } catch let error as CountdownClientError {
      throw HTTPError(error.isAway ? .serviceUnavailable : .conflict, message: "\(error)")
    }
    response.headers[.contentSecurityPolicy] =
      "default-src 'none'; script-src 'self' \(gateway); style-src 'self'; img-src data:; "
      + "connect-src 'self' \(gateway); base-uri 'none'; form-action 'none'; "
      + "frame-ancestors 'none'; require-trusted-types-for 'script'"
    response.headers[.xContentTypeOptions] = "nosniff"
    return response
  }
}

/// Issues tickets: JSON Web Tokens that name the channels that the page may watch.
struct Tickets: Sendable {
  /// Channels by alias.
  let channels: [String: String]
  private let secret = SymmetricKey(size: .bits256).withUnsafeBytes { Data($0).base64URL }

  init(channels: [String: String]) { self.channels = channels }

  /// The text of the gateway's key file.
  var keys: String { "showcase \(secret)\n" }

  func issue() -> String {
    let claims = object([
      ("exp", .integer(Int(Date.now.timeIntervalSince1970) + 600)),
      ("jti", .simpleString(UUID().uuidString)),
      ("watch", object(channels.map { ($0.key, .simpleString($0.value)) })),
    ])
    let header = #"{"alg":"HS256","kid":"showcase"}"#
    let signed = "\(Data(header.utf8).base64URL).\(Data(claims.json.utf8).base64URL)"
    let code = HMAC<SHA256>.authenticationCode(
      for: Data(signed.utf8), using: SymmetricKey(data: Data(secret.utf8)))
    return "\(signed).\(Data(code).base64URL)"
  }
}

func object(_ members: [(String, RESPValue)]) -> RESPValue {
  .map(members.map { .init(.simpleString($0.0), $0.1) })
}

extension Data {
  fileprivate var base64URL: String {
    base64EncodedString().replacingOccurrences(of: "+", with: "-")
      .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
  }
}
