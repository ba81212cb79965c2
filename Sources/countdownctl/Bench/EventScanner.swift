import NIOCore

/// The fields of an event that a load test needs.
struct ScannedEvent: Equatable {
  enum Name { case ready, tick, other }

  let name: Name
  /// Milliseconds since 1970, rounded down; nil for an event that a command caused.
  let dueUnixMS: Int?
  let lateMicroseconds: Int?
}

/// Finds the events in the output to a RESP2 subscriber, without making values of them.
struct EventScanner {
  private var buffer = ByteBuffer()

  /// Calls `body` with each event that these bytes complete. Other replies, such as the answer to
  /// PSUBSCRIBE, are skipped. Returns the text of the first error.
  mutating func feed(_ bytes: inout ByteBuffer, _ body: (ScannedEvent) -> Void) -> String? {
    if buffer.readableBytes == 0 {
      swap(&buffer, &bytes)
    } else {
      buffer.writeBuffer(&bytes)
    }
    let (used, error) = Self.scan(buffer.readableBytesUInt8Span, body)
    buffer.moveReaderIndex(forwardBy: used)
    buffer.discardReadBytes()
    return error
  }

  private static func scan(
    _ all: Span<UInt8>, _ body: (ScannedEvent) -> Void
  ) -> (used: Int, error: String?) {
    var error: String?
    var start = 0
    while let (payload, end) = frame(all, start) {
      if let payload {
        body(event(all.extracting(payload)))
      } else if all[start] == UInt8(ascii: "-"), error == nil {
        error = (start + 1..<end - 2).reduce(into: "") { $0.unicodeScalars.append(.init(all[$1])) }
      }
      start = end
    }
    return (start, error)
  }

  /// The last bulk of the frame at `start`, if it is a message, and the end of the frame; nil if it is
  /// not complete.
  private static func frame(
    _ all: Span<UInt8>, _ start: Int
  ) -> (payload: Range<Int>?, end: Int)? {
    guard var (count, position) = number(all, start) else { return nil }
    guard all[start] == UInt8(ascii: "*") else { return (nil, position) }
    var payload: Range<Int>?
    while count > 0 {
      count -= 1
      guard let (length, begin) = number(all, position) else { return nil }
      guard all[position] == UInt8(ascii: "$"), length >= 0 else {
        (payload, position) = (nil, begin)
        continue
      }
      guard begin + length + 2 <= all.count else { return nil }
      (payload, position) = (begin..<begin + length, begin + length + 2)
    }
    return (payload, position)
  }

  /// The number of the line at `start`, and the start of the next line.
  private static func number(_ all: Span<UInt8>, _ start: Int) -> (value: Int, end: Int)? {
    var value = 0
    var isNegative = false
    for index in min(start + 1, all.count)..<all.count {
      switch all[index] {
      case let byte where isDigit(byte): value = value &* 10 &+ Int(byte &- UInt8(ascii: "0"))
      case UInt8(ascii: "-"): isNegative = true
      case UInt8(ascii: "\n"): return (isNegative ? -1 : value, index + 1)
      default: break
      }
    }
    return nil
  }

  // MARK: JSON

  /// Reads an event. A quote is escaped in a JSON string, so a name with its quotes is a name.
  private static func event(_ line: Span<UInt8>) -> ScannedEvent {
    let name: ScannedEvent.Name =
      if find(#""event":"ready""#, line) != nil {
        .ready
      } else if find(#""event":"tick""#, line) != nil {
        .tick
      } else {
        .other
      }
    return ScannedEvent(
      name: name, dueUnixMS: integer(after: #""due_unix_ms":"#, line),
      lateMicroseconds: integer(after: #""late_us":"#, line))
  }

  private static func integer(after name: String, _ line: Span<UInt8>) -> Int? {
    guard var index = find(name, line), index < line.count else { return nil }
    let isNegative = line[index] == UInt8(ascii: "-")
    if isNegative { index += 1 }
    let first = index
    var value = 0
    while index < line.count, isDigit(line[index]) {
      value = value &* 10 &+ Int(line[index] &- UInt8(ascii: "0"))
      index += 1
    }
    guard index > first else { return nil }
    return isNegative ? -value : value
  }

  /// The end of the first `text` in the line.
  private static func find(_ text: String, _ line: Span<UInt8>) -> Int? {
    let text = text.utf8.span
    guard line.count >= text.count else { return nil }
    for start in 0...line.count - text.count where line[start] == text[0] {
      var length = 1
      while length < text.count, line[start + length] == text[length] { length += 1 }
      if length == text.count { return start + length }
    }
    return nil
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }
}
