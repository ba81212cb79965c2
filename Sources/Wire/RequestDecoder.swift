import Synchronization

/// Finds requests in a stream of bytes: arrays of bulk strings, or inline commands typed by people.
/// Continues where it stopped, so it never reads parts of a request twice.
///
///     decoder.append(bytes.span.bytes)
///     while try decoder.next() { decoder.withArguments { handle($0) } }
///
/// Allocates memory for received bytes only, never for a length that is merely announced.
///
/// Source: the Redis serialization protocol, RESP2 and RESP3 (which are the same for requests).
package struct RequestDecoder: ~Copyable {
  package let limits: RESPLimits

  /// Makes Swift borrow the decoder by address; it copies structs without an atomic.
  private let anchor = Atomic<UInt8>(0)
  private var buffer = ByteQueue()
  /// The places of the arguments read; after them, unused places left from earlier requests.
  private var ranges: [ArgumentRange] = []
  private var cursor = Cursor()
  private var ahead = Ahead()
  /// Whether a request has been handed out. Asking for the next one drops its bytes.
  private var isDone = false
  /// The text of inline arguments, without quotes and escapes.
  private var inline: [UInt8] = []
  private var isInline = false

  /// The request after the one that was handed out.
  private struct Ahead {
    var ranges: [ArgumentRange] = []
    /// The number of arguments; 0 before the request has been read.
    var count = 0
    var end = 0
  }

  /// The position within a request.
  private struct Cursor {
    /// The offset from the request's first byte.
    var position = 0
    /// The number of arguments read, the bytes announced, and the number of arguments missing.
    var count = 0
    var bytes = 0
    var missing = 0
    /// The length of the next argument; nil before its header has been read.
    var length: Int?
  }

  package init(limits: RESPLimits = RESPLimits()) { self.limits = limits }

  /// The number of received bytes in memory. `next` drops those of the request handed out before.
  package var bufferedBytes: Int { buffer.count }

  package mutating func append(_ bytes: RawSpan) { buffer.append(bytes) }

  /// Passes `body` the arguments of the request that `next` found.
  package func withArguments<R>(_ body: (Arguments) -> R) -> R {
    let ranges = ranges.span.extracting(first: cursor.count)
    return body(Arguments(isInline ? inline.span : buffer.bytes, ranges))
  }

  /// Passes `body` the arguments of the request after the one that `next` found, if it is short and
  /// complete.
  package mutating func withNext(_ body: (Arguments) -> Void) {
    guard isDone, !isInline, buffer.count > cursor.position + 8 else { return }
    var ahead = Ahead()
    swap(&ahead, &self.ahead)
    Self.readAhead(buffer.bytes.extracting(cursor.position...), limits, &ahead)
    if ahead.count > 0 {
      body(
        Arguments(
          buffer.bytes.extracting(cursor.position...),
          ahead.ranges.span.extracting(first: ahead.count)))
    }
    swap(&ahead, &self.ahead)
  }

  private static func readAhead(
    _ bytes: Span<UInt8>, _ limits: RESPLimits, _ ahead: inout Ahead
  ) {
    let maximum = 9
    guard bytes[0] == UInt8(ascii: "*"),
      let (count, header) = shortNumber(bytes.word(at: 0)),
      (1...min(limits.arguments, maximum)).contains(count), isShort(count, limits)
    else { return }
    if ahead.ranges.count < maximum {
      ahead.ranges = Array(repeating: ArgumentRange(start: 0, count: 0), count: maximum)
    }
    var places = ahead.ranges.mutableSpan
    guard let end = readShort(count, bytes, from: header, &places) else { return }
    (ahead.count, ahead.end) = (count, end)
  }

  /// Finds the next request; returns false if that needs more bytes.
  package mutating func next() throws(RESPProtocolError) -> Bool {
    if isDone { reset() }
    if ahead.count > 0 {
      swap(&ranges, &ahead.ranges)
      cursor.count = ahead.count
      cursor.position = ahead.end
      ahead.count = 0
      isDone = true
      return true
    }
    while cursor.missing == 0 {
      guard buffer.count > 0 else { return false }
      guard buffer[0] == UInt8(ascii: "*") else {
        guard try readInline() else { return false }
        guard cursor.count == 0 else {
          isDone = true
          return true
        }
        reset()
        continue
      }
      guard let line = try Self.number(in: buffer.bytes, at: 0, Self.badCount) else { return false }
      guard line.value <= limits.arguments else {
        throw RESPProtocolError(
          description: "\(line.value) arguments, max-arguments is \(limits.arguments)")
      }
      cursor.position = line.end
      cursor.missing = max(line.value, 0)
      if cursor.missing == 0 { reset() }
    }
    // A local variable, so that the bytes can be borrowed meanwhile.
    var ranges: [ArgumentRange] = []
    swap(&ranges, &self.ranges)
    defer { swap(&ranges, &self.ranges) }
    if cursor.count == 0, cursor.length == nil, Self.isShort(cursor.missing, limits),
      cursor.missing <= ranges.count
    {
      var places = ranges.mutableSpan
      if let end = Self.readShort(cursor.missing, buffer.bytes, from: cursor.position, &places) {
        cursor.position = end
        cursor.count = cursor.missing
        cursor.missing = 0
        isDone = true
        return true
      }
    }
    // A local variable stays in registers.
    var cursor = cursor
    defer { self.cursor = cursor }
    isDone = try Self.readArguments(buffer.bytes, limits, &cursor, &ranges)
    return isDone
  }

  /// Reads the arguments that have arrived; returns false if some are missing.
  @inline(__always)
  private static func readArguments(
    _ bytes: Span<UInt8>, _ limits: RESPLimits, _ cursor: inout Cursor,
    _ ranges: inout [ArgumentRange]
  ) throws(RESPProtocolError) -> Bool {
    while cursor.missing > 0 {
      let length: Int
      if let known = cursor.length {
        length = known
      } else {
        guard bytes.count > cursor.position else { return false }
        guard bytes[cursor.position] == UInt8(ascii: "$") else {
          throw RESPProtocolError(
            description: "expected '$', got '\(printable(bytes[cursor.position]))'")
        }
        guard let line = try number(in: bytes, at: cursor.position, badBulk) else { return false }
        guard line.value >= 0 else { throw badBulk }
        guard line.value <= limits.bulkLength else {
          throw RESPProtocolError(
            description: "bulk of \(line.value) bytes, max-bulk-length is \(limits.bulkLength)")
        }
        cursor.position = line.end
        cursor.bytes += line.value
        guard cursor.bytes <= limits.requestLength else {
          throw RESPProtocolError(
            description: "request too long, max-request-length is \(limits.requestLength)")
        }
        length = line.value
        cursor.length = length
      }
      let end = cursor.position + length
      guard bytes.count >= end + 2 else { return false }
      guard bytes.isLineEnd(at: end) else {
        throw RESPProtocolError(description: "bulk does not end where its length says")
      }
      let range = ArgumentRange(start: UInt32(cursor.position), count: UInt32(length))
      if cursor.count < ranges.count {
        ranges[cursor.count] = range
      } else {
        ranges.append(range)
      }
      cursor.count += 1
      cursor.missing -= 1
      cursor.position = end + 2
      cursor.length = nil
    }
    return true
  }

  /// Returns whether `count` short arguments are within all limits.
  private static func isShort(_ count: Int, _ limits: RESPLimits) -> Bool {
    limits.bulkLength >= maximumShort && limits.requestLength / maximumShort >= count
  }

  /// Reads all arguments of a request if they are short and complete, as most are.
  ///
  /// - Returns: the end of the request; nil if the arguments must be read one by one.
  @inline(never)
  private static func readShort(
    _ count: Int, _ bytes: Span<UInt8>, from start: Int,
    _ ranges: inout MutableSpan<ArgumentRange>
  ) -> Int? {
    var position = start
    for index in 0..<count {
      guard position &+ 8 <= bytes.count, bytes[position] == UInt8(ascii: "$"),
        let (length, header) = shortNumber(bytes.word(at: position))
      else { return nil }
      let begin = position &+ header
      let end = begin &+ length
      guard end &+ 2 <= bytes.count, bytes.isLineEnd(at: end) else { return nil }
      ranges[index] = ArgumentRange(
        start: UInt32(truncatingIfNeeded: begin), count: UInt32(truncatingIfNeeded: length))
      position = end &+ 2
    }
    return position
  }

  /// The longest argument that `readShort` takes, in bytes.
  private static let maximumShort = 99

  private static let badCount = RESPProtocolError(description: "invalid multibulk length")
  private static let badBulk = RESPProtocolError(description: "invalid bulk length")

  private mutating func reset() {
    buffer.removeFirst(cursor.position)
    cursor = Cursor()
    isDone = false
    if ranges.count > 64 { ranges = [] }
    guard isInline else { return }
    isInline = false
    if inline.count > 512 { inline = [] } else { inline.removeAll(keepingCapacity: true) }
  }

  // MARK: Lengths

  /// Reads a line such as `*3\r\n`; returns its number and its end, or nil if it is incomplete.
  @inline(__always)
  private static func number(
    in bytes: Span<UInt8>, at start: Int, _ malformed: @autoclosure () -> RESPProtocolError
  ) throws(RESPProtocolError) -> (value: Int, end: Int)? {
    let least = 5
    if bytes.count - start >= least,
      let (value, length) = shortNumber(bytes.word(at: start, count: least))
    {
      return (value, start + length)
    }
    return try longNumber(in: bytes, at: start, malformed())
  }

  /// Reads a number of one or two digits, as most are; returns it with the length of its line.
  ///
  /// - Parameter word: the first bytes of the line.
  @inline(__always)
  private static func shortNumber(_ word: UInt64) -> (value: Int, length: Int)? {
    let first = word &>> 8 & 0xFF &- 0x30
    guard first < 10 else { return nil }
    if word &>> 16 & 0xFFFF == 0x0A0D { return (Int(first), 4) }
    let second = word &>> 16 & 0xFF &- 0x30
    guard second < 10, word &>> 24 & 0xFFFF == 0x0A0D else { return nil }
    return (Int(first &* 10 &+ second), 5)
  }

  /// Reads any number. Saturates instead of overflowing: the limits refuse such numbers.
  @inline(never)
  private static func longNumber(
    in bytes: Span<UInt8>, at start: Int, _ malformed: @autoclosure () -> RESPProtocolError
  ) throws(RESPProtocolError) -> (value: Int, end: Int)? {
    let longestLine = 24
    var index = start + 1
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

  /// Reads a typed line; returns false if its end has not arrived.
  private mutating func readInline() throws(RESPProtocolError) -> Bool {
    // `position` is where the search for the line end continues.
    while cursor.position < buffer.count, buffer[cursor.position] != UInt8(ascii: "\n") {
      cursor.position += 1
    }
    // A final carriage return is part of the line end, even before the line feed has arrived.
    let end =
      cursor.position > 0 && buffer[cursor.position - 1] == UInt8(ascii: "\r")
      ? cursor.position - 1 : cursor.position
    guard end <= limits.inlineLength else {
      throw RESPProtocolError(
        description: "inline command too long, max-inline-length is \(limits.inlineLength)")
    }
    guard cursor.position < buffer.count else { return false }
    isInline = true
    cursor.position += 1
    var text = inline
    inline = []
    let words = try InlineWords.split(buffer.bytes.extracting(first: end), into: &text)
    inline = text
    guard words.count <= limits.arguments else {
      throw RESPProtocolError(
        description: "\(words.count) arguments, max-arguments is \(limits.arguments)")
    }
    ranges = words
    cursor.count = words.count
    return true
  }
}

private func printable(_ byte: UInt8) -> String {
  (32..<127).contains(byte)
    ? String(UnicodeScalar(byte)) : "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
}
