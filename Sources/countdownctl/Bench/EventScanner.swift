import NIOCore

/// The fields of an event that a load test needs.
struct ScannedEvent: Equatable {
  enum Name { case ready, tick, other }

  let name: Name
  /// The deadline in milliseconds since 1970, rounded down; nil for an event that a command caused.
  let dueUnixMS: Int?
  let lateMicroseconds: Int?
}

/// Finds the events in the output to a RESP2 subscriber, without decoding them into values.
///
/// An event is a line that begins with a brace: neither the channel names of this load nor JSON
/// contain a line feed.
struct EventScanner {
  private var buffer = ByteBuffer()

  /// Calls `body` with each event that these bytes complete, and skips other replies. Returns the
  /// text of the first error; nil without one.
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

  /// Scans the complete lines.
  private static func scan(
    _ all: Span<UInt8>, _ body: (ScannedEvent) -> Void
  ) -> (used: Int, error: String?) {
    var error: String?
    var start = 0
    for index in 0..<all.count where all[index] == UInt8(ascii: "\n") {
      if all[start] == UInt8(ascii: "{") {
        body(event(all.extracting(start..<index)))
      } else if all[start] == UInt8(ascii: "-"), error == nil {
        error = (start + 1..<max(start + 1, index - 1)).reduce(into: "") {
          $0.unicodeScalars.append(.init(all[$1]))
        }
      }
      start = index + 1
    }
    return (start, error)
  }

  // MARK: JSON

  /// Scans an event. JSON strings escape quotes, so a name with its quotes is always a field.
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

  /// Returns the end of the first `text` in the line; nil without one.
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
