import CountdownClient
import HTTPTypes
import Hummingbird

/// The reason why a request was refused, as `application/problem+json` (RFC 9457).
struct Problem: Error, Hashable {
  let status: HTTPResponse.Status
  let detail: String
  /// The time after which to try again, in seconds.
  var retryAfter: Int?
  /// The methods that the address has, in a refusal of another one.
  var allow: String?

  init(_ status: HTTPResponse.Status, _ detail: String, retryAfter: Int? = nil) {
    self.status = status
    self.detail = detail
    self.retryAfter = retryAfter
  }

  static func ticket(_ detail: String) -> Problem { Problem(.unauthorized, detail) }

  static func daemonDown(_ detail: String) -> Problem {
    Problem(.serviceUnavailable, detail, retryAfter: 1)
  }

  /// Converts any error that a handler throws.
  init(_ error: any Error) {
    switch error {
    case let problem as Problem: self = problem
    case let error as CountdownClientError: self.init(error)
    case let error as any HTTPResponseError:
      self.init(error.status, error.status == .notFound ? "there is nothing here" : "")
    default: self.init(.internalServerError, "")
    }
  }

  private init(_ error: CountdownClientError) {
    switch error {
    case .server(let code, let message):
      let status: HTTPResponse.Status =
        switch code {
        case .notFound: .notFound
        case .notPermitted: .forbidden
        case .stale: .conflict
        case .limitReached: .tooManyRequests
        case .loading, .readOnly, .unavailable, .unsure: .serviceUnavailable
        default: .badRequest
        }
      self.init(status, message.isEmpty ? "\(code)" : "\(code) \(message)")
    // The messages of other errors contain paths, which clients need not know.
    default: self = .daemonDown("countdownd does not answer")
    }
  }

  var response: Response {
    let body = RESPValue.map([
      .init(.simpleString("title"), .simpleString(status.reasonPhrase)),
      .init(.simpleString("status"), .integer(status.code)),
      .init(.simpleString("detail"), .simpleString(detail)),
    ])
    var headers: HTTPFields = [.contentType: "application/problem+json", .cacheControl: "no-store"]
    if status == .unauthorized { headers[.wwwAuthenticate] = "Bearer" }
    if let allow { headers[.allow] = allow }
    if let retryAfter { headers[.retryAfter] = "\(retryAfter)" }
    return Response(
      status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(string: body.json)))
  }
}
