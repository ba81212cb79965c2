/// What one request may cost before it is refused. All in bytes, but for `arguments`.
package struct RESPLimits: Equatable, Sendable {
  package var bulkLength: Int
  package var inlineLength: Int
  package var arguments: Int
  /// All arguments of one request together.
  package var requestLength: Int

  package init(
    bulkLength: Int = 64 << 10, inlineLength: Int = 64 << 10, arguments: Int = 16_384,
    requestLength: Int = 1 << 20
  ) {
    self.bulkLength = bulkLength
    self.inlineLength = inlineLength
    self.arguments = arguments
    self.requestLength = requestLength
  }
}

/// Bytes that are no request. After one the stream cannot be understood any more.
package struct RESPProtocolError: Error, Equatable, CustomStringConvertible {
  package let description: String
}
