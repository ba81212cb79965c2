// A login service: COUNTDOWND_SOCKET names the daemon, PORT where to listen on 127.0.0.1.

import CountdownClient
import FlyingFox
import Foundation

struct ProviderError: Error {}

let environment = ProcessInfo.processInfo.environment
let daemon = try await CountdownClient.connect(
  path: environment["COUNTDOWND_SOCKET"] ?? "/run/countdownd/countdownd.sock")
let service = LoginService(daemon: daemon) { phone, text in
  // Stands for the SMS gateway.
  if phone.hasSuffix("0000") { throw ProviderError() }
  FileHandle.standardOutput.write(Data("\(phone) \(text)\n".utf8))
}
let page = try Data(
  contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../page.html"))

let server = HTTPServer(
  address: try .inet(ip4: "127.0.0.1", port: UInt16(environment["PORT"] ?? "5000") ?? 5000))

await server.appendRoute("GET /") { _ in
  HTTPResponse(statusCode: .ok, headers: [.contentType: "text/html"], body: page)
}

await server.appendRoute("GET /status") { request in
  guard let phone = request.query["phone"], isPhone(phone) else { return HTTPResponse.bad }
  return try HTTPResponse.json(.ok, Button(try await service.status(phone)))
}

await server.appendRoute("POST /send") { request in
  struct Body: Decodable { var phone, token: String }
  guard let body = try? JSONDecoder().decode(Body.self, from: try await request.bodyData),
    isPhone(body.phone), (1...64).contains(body.token.utf8.count)
  else { return HTTPResponse.bad }
  let (result, view) = try await service.send(body.phone, token: body.token)
  let button = Button(view)
  return switch result {
  case .sent: try HTTPResponse.json(.ok, Answer(message: "验证码已发送", button: button))
  case .refused: try HTTPResponse.json(.tooManyRequests, Answer(message: "请稍后再试", button: button))
  case .failed: try HTTPResponse.json(.badGateway, Answer(message: "发送失败,请重试", button: button))
  }
}

await server.appendRoute("POST /verify") { request in
  struct Body: Decodable { var phone, code: String }
  guard let body = try? JSONDecoder().decode(Body.self, from: try await request.bodyData),
    isPhone(body.phone)
  else { return HTTPResponse.bad }
  return switch try await service.verify(body.phone, code: body.code) {
  case .right:
    // And here the session begins.
    try HTTPResponse.json(.ok, Answer(message: "登录成功", ok: true))
  case .wrong(let left):
    try HTTPResponse.json(
      .forbidden,
      Answer(message: "验证码错误,还可尝试 \(left ?? 0) 次", ok: false, reason: "wrong"))
  case .refused(let reason):
    try HTTPResponse.json(.forbidden, Answer(message: "验证码已失效", ok: false, reason: reason.rawValue))
  }
}

try await server.run()
