import CZlib
import CountdownClient
import Crypto
import HTTPTypes
import Hummingbird

/// A file that the gateway serves, embedded in the program, also compressed.
struct Page: Sendable {
  private let type: String
  private let bytes: ByteBuffer
  private let compressed: ByteBuffer
  /// Identifies the content. Weak, because the compressed form has the same.
  private let tag: String
  private let contentSecurityPolicy: String?

  init(type: String, bytes: [UInt8], contentSecurityPolicy: String? = nil) {
    self.type = type
    self.bytes = ByteBuffer(bytes: bytes)
    self.contentSecurityPolicy = contentSecurityPolicy
    compressed = ByteBuffer(bytes: gzip(bytes))
    let digest = SHA256.hash(data: bytes).prefix(12)
    tag = "W/\"\(digest.map { "\($0)" }.joined(separator: "-"))\""
  }

  static let openapi = Page(type: "application/json", bytes: PackageResources.openapi_json)

  static let components: [String: Page] = [
    "countdown-button.js": script(PackageResources.countdown_button_js),
    "countdown-hud.js": script(PackageResources.countdown_hud_js),
    "countdown-languages.js": script(PackageResources.countdown_languages_js),
    "countdown-stream.js": script(Array(stream.utf8)),
  ]

  /// Tells the components that a gateway serves them, and where it is. Files that an app hosts itself
  /// cannot know it.
  private static let stream = String(decoding: PackageResources.countdown_stream_js, as: UTF8.self)
    .replacing(
      "import.meta.home",
      with: #"import.meta.url.replace(/components\/([^\/]+\/)?countdown-stream\.js.*/,"")"#)

  static func script(_ bytes: [UInt8]) -> Page {
    Page(type: "text/javascript; charset=utf-8", bytes: bytes)
  }

  /// - Parameter isForever: whether the address names this version, and never has another one.
  func response(to request: Request, isForever: Bool = false) -> Response {
    var headers: HTTPFields = [
      .cacheControl: isForever ? "public, max-age=31536000, immutable" : "public, max-age=300",
      .eTag: tag,
    ]
    if let contentSecurityPolicy { headers[.contentSecurityPolicy] = contentSecurityPolicy }
    let known = request.headers[.ifNoneMatch]?.split(separator: ",") ?? []
    if known.contains(where: { $0.drop { $0 == " " } == tag }) {
      return Response(status: .notModified, headers: headers)
    }
    headers[.contentType] = type
    guard acceptsGzip(request) else {
      return Response(status: .ok, headers: headers, body: .init(byteBuffer: bytes))
    }
    headers[.contentEncoding] = "gzip"
    return Response(status: .ok, headers: headers, body: .init(byteBuffer: compressed))
  }

  private func acceptsGzip(_ request: Request) -> Bool {
    (request.headers[.acceptEncoding] ?? "").split(separator: ",").contains {
      let words = $0.filter { $0 != " " }.lowercased().split(separator: ";")
      return words.first == "gzip" && !words.dropFirst().contains { $0 == "q=0" }
    }
  }
}

/// Compresses bytes (RFC 1952).
private func gzip(_ bytes: [UInt8]) -> [UInt8] {
  var stream = z_stream()
  // 16 asks for the header of gzip.
  let isReady = deflateInit2_(
    &stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
    Int32(MemoryLayout<z_stream>.size))
  precondition(isReady == Z_OK, "zlib has no memory")
  defer { deflateEnd(&stream) }
  var input = bytes
  return input.withUnsafeMutableBufferPointer { input in
    stream.next_in = input.baseAddress
    stream.avail_in = UInt32(input.count)
    return [UInt8](unsafeUninitializedCapacity: Int(deflateBound(&stream, UInt(input.count)))) {
      stream.next_out = $0.baseAddress
      stream.avail_out = UInt32($0.count)
      let end = deflate(&stream, Z_FINISH)
      precondition(end == Z_STREAM_END, "deflateBound is large enough")
      $1 = Int(stream.total_out)
    }
  }
}
