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

  static func script(_ bytes: [UInt8]) -> Page {
    Page(type: "text/javascript; charset=utf-8", bytes: bytes)
  }

  var response: Response {
    var headers: HTTPFields = [.contentType: type, .cacheControl: "public, max-age=300"]
    if let contentSecurityPolicy { headers[.contentSecurityPolicy] = contentSecurityPolicy }
    return Response(
      status: .ok, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: bytes)))
  }
}
