import HTTPTypes
import Hummingbird

/// A file that the gateway serves, embedded in the program.
struct Page: Sendable {
  let type: String
  let bytes: [UInt8]
  var contentSecurityPolicy: String?

  static let openapi = Page(type: "application/json", bytes: PackageResources.openapi_json)

  static let components: [String: Page] = [
    "countdown-button.js": script(PackageResources.countdown_button_js),
    "countdown-hud.js": script(PackageResources.countdown_hud_js),
    "countdown-stream.js": script(PackageResources.countdown_stream_js),
  ]

  /// A script without its comments and indentation: they are a third of what browsers would load.
  static func script(_ bytes: [UInt8]) -> Page {
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
      .map { $0.drop { $0 == " " } }
      .filter { !$0.isEmpty && !$0.hasPrefix("//") }
    return Page(
      type: "text/javascript; charset=utf-8", bytes: Array(lines.joined(separator: "\n").utf8))
  }

  var response: Response {
    var headers: HTTPFields = [.contentType: type, .cacheControl: "public, max-age=300"]
    if let contentSecurityPolicy { headers[.contentSecurityPolicy] = contentSecurityPolicy }
    return Response(
      status: .ok, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
