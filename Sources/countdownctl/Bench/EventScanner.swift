import NIOCore

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// What an event says that a load test wants to know.
struct ScannedEvent: Equatable {
  enum Name { case ready, tick, other }

  let name: Name
  /// Milliseconds since 1970, rounded down; nil for what time did not do.
  let dueUnixMS: Int?
  let lateMicroseconds: Int?
}

/// Finds the events in what a RESP2 subscriber gets, without making values of them.
struct EventScanner {
  private var buffer = ByteBuffer()

  /// Takes in bytes as they came, and calls `body` with each event they completed. What is no event,
  /// such as the answer to PSUBSCRIBE, is passed over. Returns the text of an error, if one came.
  mutating func feed(_ bytes: inout ByteBuffer, _ body: (ScannedEvent) -> Void) -> String? {
    if buffer.readableBytes == 0 {
      swap(&buffer, &bytes)
    } else {
      buffer.writeBuffer(&bytes)
    }
    var error: String?
    let used = buffer.withUnsafeReadableBytes { all -> Int in
      var start = 0
      while let (payload, end) = Self.frame(all, start, &error) {
        if let payload { body(Self.event(payload)) }
        start = end
      }
      return start
    }
    buffer.moveReaderIndex(forwardBy: used)
    buffer.discardReadBytes()
    return error
  }

  /// The last bulk of the frame at `start`, if it is a message, and where the frame ends; nil when it
  /// is not whole yet.
  private static func frame(
    _ all: UnsafeRawBufferPointer, _ start: Int, _ error: inout String?
  ) -> (payload: UnsafeRawBufferPointer?, end: Int)? {
    guard let line = number(all, start) else { return nil }
    guard all[start] == UInt8(ascii: "*") else {
      if all[start] == UInt8(ascii: "-"), error == nil {
        error = String(decoding: all[start + 1..<line.end - 2], as: UTF8.self)
      }
      return (nil, line.end)
    }
    var position = line.end
    var payload: UnsafeRawBufferPointer?
    for _ in 0..<max(0, line.value) {
      guard let element = number(all, position) else { return nil }
      guard all[position] == UInt8(ascii: "$"), element.value >= 0 else {
        payload = nil
        position = element.end
        continue
      }
      let end = element.end + element.value
      guard end + 2 <= all.count else { return nil }
      payload = UnsafeRawBufferPointer(rebasing: all[element.end..<end])
      position = end + 2
    }
    return (payload, position)
  }

  /// The number of the line at `start`, and where the next one begins.
  private static func number(
    _ all: UnsafeRawBufferPointer, _ start: Int
  ) -> (value: Int, end: Int)? {
    var value = 0
    var isNegative = false
    var index = start + 1
    while index < all.count {
      let byte = all[index]
      index += 1
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"):
        value = value &* 10 &+ Int(byte &- UInt8(ascii: "0"))
      case UInt8(ascii: "-"): isNegative = true
      case UInt8(ascii: "\n"): return (isNegative ? -1 : value, index)
      default: break
      }
    }
    return nil
  }

  // MARK: JSON

  /// Inside a JSON string a quote is escaped, so a name with its quotes is only found as a name.
  static func event(_ line: UnsafeRawBufferPointer) -> ScannedEvent {
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

  private static func integer(after name: StaticString, _ line: UnsafeRawBufferPointer) -> Int? {
    guard var index = find(name, line), index < line.count else { return nil }
    let isNegative = line[index] == UInt8(ascii: "-")
    if isNegative { index += 1 }
    let first = index
    var value = 0
    while index < line.count, case UInt8(ascii: "0")...UInt8(ascii: "9") = line[index] {
      value = value &* 10 &+ Int(line[index] &- UInt8(ascii: "0"))
      index += 1
    }
    guard index > first else { return nil }
    return isNegative ? -value : value
  }

  /// Where `text`, which begins with a quote, ends in the line, first found.
  private static func find(_ text: StaticString, _ line: UnsafeRawBufferPointer) -> Int? {
    guard let base = line.baseAddress else { return nil }
    let length = text.utf8CodeUnitCount
    var start = 0
    while start + length <= line.count,
      let quote = memchr(base + start, CInt(UInt8(ascii: "\"")), line.count - length - start + 1)
    {
      if memcmp(quote, text.utf8Start, length) == 0 {
        return UnsafeRawPointer(quote) - base + length
      }
      start = UnsafeRawPointer(quote) - base + 1
    }
    return nil
  }
}
