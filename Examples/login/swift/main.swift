// A login service. COUNTDOWND_SOCKET is the daemon's socket, PORT the port on 127.0.0.1.

import CountdownClient
import FlyingFox
import Foundation

struct ProviderError: Error {}

let environment = ProcessInfo.processInfo.environment
let daemon = Client.unconnected()
let service = LoginService(daemon: daemon) { phone, text in
  // Takes the place of the SMS gateway.
  if phone.hasSuffix("0000") { throw ProviderError() }
  FileHandle.standardOutput.write(Data("\(phone) \(text)\n".utf8))
}
let page = try Data(
  contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../page.html"))

let server = HTTPServer(
  address: try .inet(ip4: "127.0.0.1", port: UInt16(environment["PORT"] ?? "5000") ?? 5000))

/// Answers requests for `route`. Logs an error of the daemon and answers with the status 503.
@Sendable func answer(
  _ route: HTTPRoute, _ body: @escaping @Sendable (HTTPRequest) async throws -> HTTPResponse
) async {
  await server.appendRoute(route) { request in
    do {
      return try await body(request)
    } catch let error as CountdownClientError {
      FileHandle.standardError.write(Data("countdownd: \(error)\n".utf8))
      return try HTTPResponse.json(.serviceUnavailable, Answer.unavailable)
    }
  }
}

await answer("GET /") { _ in
  HTTPResponse(statusCode: .ok, headers: [.contentType: "text/html"], body: page)
}

await answer("GET /status") { request in
  guard let phone = request.query["phone"], isPhone(phone) else { return try HTTPResponse.bad }
  return try HTTPResponse.json(.ok, Button(try await service.status(phone)))
}

await answer("POST /send") { request in
  struct Body: Decodable { var phone, token: String }
  guard let body = try? JSONDecoder().decode(Body.self, from: try await request.bodyData),
    isPhone(body.phone), (1...64).contains(body.token.utf8.count)
  else { return try HTTPResponse.bad }
  let (result, view) = try await service.send(
    body.phone, token: body.token, from: request.clientAddress)
  let (status, message): (HTTPStatusCode, String) =
    switch result {
    case .sent: (.ok, "We sent you a code.")
    case .refused(.limit), .refused(.blocked):
      (.tooManyRequests, "Too many codes were asked for. Try again later, or sign in by mail.")
    case .refused:
      (
        .tooManyRequests,
        "A code was sent a short while ago. Wait before you ask for another one."
      )
    case .failed: (.badGateway, "The code could not be sent. Check the number and try again.")
    }
  return try HTTPResponse.json(
    status, Answer(message: message, button: Button(view), ok: result == .sent))
}

await answer("POST /verify") { request in
  struct Body: Decodable { var phone, code: String }
  guard let body = try? JSONDecoder().decode(Body.self, from: try await request.bodyData),
    isPhone(body.phone)
  else { return try HTTPResponse.bad }
  func refused(
    _ reason: String, _ message: String = "This code is no longer valid. Ask for a new one."
  ) throws -> HTTPResponse {
    try HTTPResponse.json(.forbidden, Answer(message: message, ok: false, reason: reason))
  }
  switch try await service.verify(body.phone, code: body.code) {
  case .right:
    // The session begins here.
    return try HTTPResponse.json(.ok, Answer(message: "You are signed in.", ok: true))
  case .wrong(let left):
    return try refused("wrong", "The code is wrong. Attempts left: \(left ?? 0).")
  case .refused(let reason): return try refused(reason.rawValue)
  }
}

try await server.run()
