typealias Bytes = UnsafeMutablePointer<UInt8>

/// The part of a request that this program uses.
struct Request {
  /// The key of `COUNTDOWN START key BRIEF`, in the input buffer; nil for any other command.
  var key: (start: Bytes, length: Int)?
}

/// Parses requests (arrays of bulk strings) from the input, one after another.
struct RequestReader {
  private var at: Bytes
  private let end: Bytes

  init(at: Bytes, end: Bytes) {
    (self.at, self.end) = (at, end)
  }

  /// The number of bytes not parsed yet.
  var unread: Int { end - at }

  /// Returns the next request, or nil if it is incomplete.
  @inline(__always)
  mutating func next() -> Request? {
    let start = at
    guard let words = header() else {
      at = start
      return nil
    }
    var request = Request()
    var isStart = words == 4
    for word in 0..<words {
      guard let length = header(), end - at >= length + 2 else {
        at = start
        return nil
      }
      switch word {
      case 1: isStart = isStart && length == 5 && at[0] | 0x20 == UInt8(ascii: "s")
      case 2: request.key = (at, length)
      case 3: isStart = isStart && length == 5 && at[0] | 0x20 == UInt8(ascii: "b")
      default: break
      }
      at += length + 2
    }
    if !isStart { request.key = nil }
    return request
  }

  /// Returns the number in a line such as `*4` or `$12`, or nil if the line is incomplete.
  @inline(__always)
  private mutating func header() -> Int? {
    // Skips the type character: the caller knows which type comes next.
    var digit = at + 1
    var number = 0
    while digit < end, digit.pointee != 0x0D {
      number = number &* 10 &+ Int(digit.pointee &- 0x30)
      digit += 1
    }
    guard end - digit >= 2 else { return nil }
    at = digit + 2
    return number
  }
}

// MARK: Replies

/// Appends `:number` and CRLF. `number` must not be negative.
@inline(__always)
func append(_ number: Int64, to reply: inout Bytes) {
  var digits: (UInt64, UInt64, UInt64) = (0, 0, 0)
  withUnsafeMutableBytes(of: &digits) { buffer in
    var first = buffer.count
    var left = UInt64(bitPattern: number)
    repeat {
      let (rest, digit) = left.quotientAndRemainder(dividingBy: 10)
      first -= 1
      buffer[first] = 0x30 | UInt8(truncatingIfNeeded: digit)
      left = rest
    } while left > 0
    reply[0] = UInt8(ascii: ":")
    let count = buffer.count - first
    UnsafeMutableRawPointer(reply + 1).copyMemory(
      from: buffer.baseAddress! + first, byteCount: count)
    reply[count + 1] = 0x0D
    reply[count + 2] = 0x0A
    reply += count + 3
  }
}

@inline(__always)
func append(_ text: StaticString, to reply: inout Bytes) {
  reply.update(from: text.utf8Start, count: text.utf8CodeUnitCount)
  reply += text.utf8CodeUnitCount
}
