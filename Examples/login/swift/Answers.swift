import CountdownClient
import FlyingFox
import Foundation

struct Answer: Encodable {
  var message: String
  var button: Button?
  var ok: Bool?
  var reason: String?
}

/// The fields of a view that the page needs.
struct Button: Encodable {
  var state = CountdownView.State.ready.rawValue
  var title: String?
  var remaining = 0
  var remainingMs: Int64 = 0
  var stepMs: Int64 = 1_000

  init(_ view: CountdownView?) {
    guard let view else { return }
    state = view.state.rawValue
    title = view.title
    remaining = view.stepsLeft
    remainingMs = view.timeLeft.milliseconds
    stepMs = view.every.milliseconds
  }
}

extension Duration {
  var milliseconds: Int64 { Int64(self / .milliseconds(1)) }
}

extension HTTPRequest {
  /// The address of the connection. Behind a proxy, take the one that the proxy saw: the first of
  /// X-Forwarded-For is the client's choice.
  var clientAddress: String {
    switch remoteAddress {
    case .ip4(let address, port: _), .ip6(let address, port: _): address
    case .unix, nil: "unknown"
    }
  }
}

func isPhone(_ text: String) -> Bool {
  text.wholeMatch(of: /\+[0-9]{6,15}/) != nil
}

extension Answer {
  static let unavailable = Answer(
    message: "Signing in is not possible right now. Try again in a moment.")
  static let bad = Answer(
    message: "A phone number is + and 6 to 15 digits; page.html shows the other fields.")
}

extension HTTPResponse {
  static var bad: HTTPResponse {
    get throws { try json(.badRequest, Answer.bad) }
  }

  static func json(_ status: HTTPStatusCode, _ value: some Encodable) throws -> HTTPResponse {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    return HTTPResponse(
      statusCode: status, headers: [.contentType: "application/json"],
      body: try encoder.encode(value))
  }
}
