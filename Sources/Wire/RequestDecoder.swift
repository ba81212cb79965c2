/// Finds requests in a stream of bytes: arrays of bulk strings, or inline commands for people who
/// type. It continues where it stopped, so a request that comes in many pieces is not read twice.
///
///     decoder.append(bytes.span.bytes)
///     while try decoder.next() { decoder.withArguments { handle($0) } }
///
/// Not a byte is allocated because a length says so, only for bytes that came.
///
/// Source: the Redis serialization protocol, RESP2 and RESP3 (which are the same for requests).
package struct RequestDecoder: ~Copyable {
  package let limits: RESPLimits

  private var buffer = ByteQueue()
  private var state = State.start
  private var ranges: [ArgumentRange] = []
  /// How far the request has been read, from its first byte.
  private var position = 0
  /// The bytes of all arguments so far.
  private var argumentBytes = 0
  /// Where inline arguments are put together, as quotes and escapes have to go.
  private var inline: [UInt8] = []
  private var isInline = false

  private enum State {
    case start
    /// How many arguments are still to come.
    case length(Int)
    case bulk(Int, then: Int)
    /// A request has been handed out; its bytes go when the next one is asked for.
    case done
  }

  package init(limits: RESPLimits = RESPLimits()) { self.limits = limits }

  /// Bytes that have come and belong to no request that was handed out.
  package var bufferedBytes: Int { buffer.count }

  package mutating func append(_ bytes: RawSpan) { buffer.append(bytes) }

  /// Lends the arguments of the request that `next` found.
  package func withArguments<R>(_ body: (Arguments) -> R) -> R {
    body(Arguments(isInline ? inline.span : buffer.bytes, ranges.span))
  }

  /// Looks for the next request; false if more bytes are needed for one.
  package mutating func next() throws(RESPProtocolError) -> Bool {
    if case .done = state { reset() }
    while true {
      switch state {
      case .start:
        guard buffer.count > 0 else { return false }
        if buffer[0] != UInt8(ascii: "*") {
          guard try readInline() else { return false }
          if ranges.isEmpty {
            reset()
            continue
          }
          state = .done
          return true
        }
        guard let (count, end) = try Self.length(in: buffer.bytes, at: 0, Self.badCount) else {
          return false
        }
        position = end
        if count <= 0 {
          reset()
          continue
        }
        guard count <= limits.arguments else {
          throw RESPProtocolError(
            description: "\(count) arguments, max-arguments is \(limits.arguments)")
        }
        state = .length(count)

      case .length(let remaining):
        guard buffer.count > position else { return false }
        guard buffer[position] == UInt8(ascii: "$") else {
          throw RESPProtocolError(
            description: "expected '$', got '\(printable(buffer[position]))'")
        }
        guard let (length, end) = try Self.length(in: buffer.bytes, at: position, Self.badBulk)
        else { return false }
        position = end
        guard length >= 0 else { throw Self.badBulk }
        guard length <= limits.bulkLength else {
          throw RESPProtocolError(
            description: "bulk of \(length) bytes, max-bulk-length is \(limits.bulkLength)")
        }
        argumentBytes += length
        guard argumentBytes <= limits.requestLength else {
          throw RESPProtocolError(
            description: "request too long, max-request-length is \(limits.requestLength)")
        }
        state = .bulk(length, then: remaining - 1)

      case .bulk(let length, then: let remaining):
        guard buffer.count >= position + length + 2 else { return false }
        guard
          buffer[position + length] == UInt8(ascii: "\r"),
          buffer[position + length + 1] == UInt8(ascii: "\n")
        else { throw RESPProtocolError(description: "bulk does not end where its length says") }
        ranges.append(ArgumentRange(start: UInt32(position), count: UInt32(length)))
        position += length + 2
        if remaining == 0 {
          state = .done
          return true
        }
        state = .length(remaining)

      case .done:
        reset()
      }
    }
  }

  private static let badCount = RESPProtocolError(description: "invalid multibulk length")
  private static let badBulk = RESPProtocolError(description: "invalid bulk length")

  private mutating func reset() {
    buffer.removeFirst(position)
    ranges.removeAll(keepingCapacity: ranges.count <= 64)
    position = 0
    argumentBytes = 0
    isInline = false
    if inline.count > 512 { inline = [] } else { inline.removeAll(keepingCapacity: true) }
    state = .start
  }

  // MARK: Lengths

  /// Reads `*3\r\n` or `$12\r\n`, and where that ends; nil if its end has not come yet. Saturates
  /// instead of overflowing: what is too big is refused by its limit.
  private static func length(
    in bytes: Span<UInt8>, at start: Int, _ malformed: @autoclosure () -> RESPProtocolError
  ) throws(RESPProtocolError) -> (value: Int, end: Int)? {
    let longestLine = 24
    var index = start + 1
    // Most often it is one digit.
    if bytes.count > index + 2, bytes[index + 1] == UInt8(ascii: "\r"),
      bytes[index + 2] == UInt8(ascii: "\n"), bytes[index] &- UInt8(ascii: "0") < 10
    {
      return (Int(bytes[index] &- UInt8(ascii: "0")), index + 3)
    }
    var negative = false
    if index < bytes.count, bytes[index] == UInt8(ascii: "-") {
      negative = true
      index += 1
    }
    let firstDigit = index
    var value = 0
    while index < bytes.count {
      let byte = bytes[index]
      let digit = byte &- UInt8(ascii: "0")
      if digit < 10 {
        guard index - start < longestLine else { throw malformed() }
        let (tenfold, tooBig) = value.multipliedReportingOverflow(by: 10)
        let (sum, tooBigYet) = tenfold.addingReportingOverflow(Int(digit))
        value = tooBig || tooBigYet ? .max : sum
        index += 1
        continue
      }
      guard byte == UInt8(ascii: "\r"), index > firstDigit else { throw malformed() }
      guard index + 1 < bytes.count else { return nil }
      guard bytes[index + 1] == UInt8(ascii: "\n") else { throw malformed() }
      return (negative ? -value : value, index + 2)
    }
    return nil
  }

  // MARK: Inline commands

  /// Reads a line that someone typed; false if its end has not come yet.
  private mutating func readInline() throws(RESPProtocolError) -> Bool {
    // `position` remembers how far the end of the line has been looked for.
    while position < buffer.count, buffer[position] != UInt8(ascii: "\n") { position += 1 }
    // A carriage return at the end belongs to the line's end, also where that has only half come.
    let end = position > 0 && buffer[position - 1] == UInt8(ascii: "\r") ? position - 1 : position
    guard end <= limits.inlineLength else {
      throw RESPProtocolError(
        description: "inline command too long, max-inline-length is \(limits.inlineLength)")
    }
    guard position < buffer.count else { return false }
    isInline = true
    position += 1
    var text = inline
    inline = []
    let words = try InlineWords.split(buffer.bytes.extracting(first: end), into: &text)
    inline = text
    guard words.count <= limits.arguments else {
      throw RESPProtocolError(
        description: "\(words.count) arguments, max-arguments is \(limits.arguments)")
    }
    ranges = words
    return true
  }
}

private func printable(_ byte: UInt8) -> String {
  (32..<127).contains(byte)
    ? String(UnicodeScalar(byte)) : "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
}
