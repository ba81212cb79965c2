/// Counts complete replies in a stream of bytes, RESP2 or RESP3, without decoding them into values.
///
/// A load test only needs their number and the first error. Decoding them would cost the client
/// more than they cost the daemon.
struct ReplyCounter {
  /// The number of replies that were errors.
  private(set) var errors = 0
  /// The text of the first error, without its `-`.
  private(set) var firstError: String?

  private enum State {
    /// The first byte of a value comes next.
    case type
    /// Digits of a length or count.
    case number(UInt8)
    /// The rest of a line to skip.
    case line
    /// The rest of the line of the first error.
    case errorLine
    /// Bytes of a bulk, including its line end.
    case bulk
  }

  private var state = State.type
  /// The number of values that the reply still lacks.
  private var missing = 1
  private var number = 0
  private var isNegative = false
  /// The number of bytes that the bulk still lacks.
  private var skipping = 0
  private var text: [UInt8] = []

  /// Returns how many replies these bytes complete. O(n).
  mutating func feed(_ bytes: Span<UInt8>) -> Int {
    var complete = 0
    var index = 0
    while index < bytes.count {
      if case .bulk = state {
        let length = min(skipping, bytes.count - index)
        index += length
        skipping -= length
        if skipping == 0 { endValue(&complete) }
        continue
      }
      let byte = bytes[index]
      index += 1
      switch state {
      case .type: begin(byte)
      case .number(let type):
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
          number = number &* 10 &+ Int(byte &- UInt8(ascii: "0"))
        case UInt8(ascii: "-"): isNegative = true
        case UInt8(ascii: "\n"): endNumber(type, &complete)
        default: break
        }
      case .line:
        if byte == UInt8(ascii: "\n") { endValue(&complete) }
      case .errorLine:
        if byte == UInt8(ascii: "\n") {
          firstError = String(decoding: text, as: UTF8.self)
          endValue(&complete)
        } else if byte != UInt8(ascii: "\r") {
          text.append(byte)
        }
      case .bulk: break
      }
    }
    return complete
  }

  private mutating func begin(_ type: UInt8) {
    switch type {
    case UInt8(ascii: "$"), UInt8(ascii: "*"), UInt8(ascii: "%"), UInt8(ascii: "~"),
      UInt8(ascii: ">"), UInt8(ascii: "="), UInt8(ascii: "!"), UInt8(ascii: "|"):
      number = 0
      isNegative = false
      state = .number(type)
    case UInt8(ascii: "-") where missing == 1:
      errors += 1
      state = firstError == nil ? .errorLine : .line
    default: state = .line
    }
  }

  private mutating func endNumber(_ type: UInt8, _ complete: inout Int) {
    let value = isNegative ? 0 : number
    switch type {
    case UInt8(ascii: "$"), UInt8(ascii: "="), UInt8(ascii: "!"):
      guard !isNegative else { return endValue(&complete) }
      skipping = value + 2
      state = .bulk
    case UInt8(ascii: "%"):
      missing += 2 * value
      endValue(&complete)
    case UInt8(ascii: "|"):
      // An attribute belongs to the value after it, and is not a value itself.
      missing += 2 * value
      state = .type
    default:
      missing += value
      endValue(&complete)
    }
  }

  private mutating func endValue(_ complete: inout Int) {
    state = .type
    missing -= 1
    guard missing == 0 else { return }
    missing = 1
    complete += 1
  }
}
