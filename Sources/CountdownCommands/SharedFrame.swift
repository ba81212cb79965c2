import CountdownEngine
import RESP

/// A message in the frames of each version, made when first needed and shared by all who get it.
struct SharedFrame: ~Copyable {
  private static let around = 32

  private let kind: EntityKind
  private let key: [UInt8]
  /// What it came by; nil for the channel itself.
  private let pattern: [UInt8]?
  private let payload: UnsafeRawBufferPointer
  private var resp2: [UInt8]?
  private var resp3: [UInt8]?

  /// - Parameter payload: lent for as long as the frame is used.
  init(_ publication: Publication, pattern: [UInt8]? = nil, payload: UnsafeRawBufferPointer) {
    kind = publication.kind
    key = publication.key
    self.pattern = pattern
    self.payload = payload
  }

  mutating func bytes(_ version: RESPEncoder.Version) -> [UInt8] {
    switch version {
    case .resp2:
      if resp2 == nil { resp2 = encode("*") }
      return resp2!
    case .resp3:
      if resp3 == nil { resp3 = encode(">") }
      return resp3!
    }
  }

  private func encode(_ type: Unicode.Scalar) -> [UInt8] {
    let prefix = kind.channelPrefix
    let most = 4 * Self.around + prefix.count + key.count + (pattern?.count ?? 0) + payload.count
    return [UInt8](unsafeUninitializedCapacity: most) { memory, count in
      var text = ShortText(UnsafeMutableRawBufferPointer(memory))
      text.byte(UInt8(ascii: type))
      if let pattern {
        text.raw("4\r\n$8\r\npmessage\r\n")
        pattern.withUnsafeBytes { text.bulk($0) }
      } else {
        text.raw("3\r\n$7\r\nmessage\r\n")
      }
      prefix.withUnsafeBytes { prefix in key.withUnsafeBytes { text.bulk(prefix, $0) } }
      text.bulk(payload)
      count = text.count
    }
  }
}
