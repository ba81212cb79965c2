import Wire

/// A message as a frame of each protocol version, made when first needed and shared by all
/// receivers. Its memory is reused for the next message.
struct SharedFrame: ~Copyable {
  private static let overhead = 32

  private var resp2 = GrowingText()
  private var resp3 = GrowingText()

  /// Forgets the previous message.
  mutating func begin() {
    resp2.removeAll()
    resp3.removeAll()
  }

  /// Lends the frame.
  ///
  /// - Parameter pattern: the receivers' pattern, the same in all calls; nil for the channel.
  mutating func withBytes(
    _ version: RESPEncoder.Version, _ message: Message, pattern: [UInt8]?,
    _ body: (Span<UInt8>) -> Void
  ) {
    switch version {
    case .resp2:
      if resp2.count == 0 { Self.write("*", message, pattern, to: &resp2) }
      body(resp2.bytes)
    case .resp3:
      if resp3.count == 0 { Self.write(">", message, pattern, to: &resp3) }
      body(resp3.bytes)
    }
  }

  private static func write(
    _ type: Unicode.Scalar, _ message: Message, _ pattern: [UInt8]?,
    to text: inout GrowingText
  ) {
    let prefix = message.kind.channelPrefix
    let maximum =
      4 * overhead + prefix.count + message.key.count + (pattern?.count ?? 0)
      + message.line.count
    text.append(atMost: maximum) { text in
      text.byte(UInt8(ascii: type))
      if let pattern {
        text.raw("4\r\n$8\r\npmessage\r\n")
        text.bulk(pattern.span)
      } else {
        text.raw("3\r\n$7\r\nmessage\r\n")
      }
      text.bulk(prefix.span, message.key)
      text.bulk(message.line)
    }
  }
}
