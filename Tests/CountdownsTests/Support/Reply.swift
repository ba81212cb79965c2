/// A RESP frame, parsed strictly: anything that is not exactly RESP is an error.
indirect enum Reply: Equatable {
  case simple(String)
  case error(String)
  case bulk(String)
  case verbatim(String)
  case double(String)
  case integer(Int64)
  case boolean(Bool)
  case null
  case array([Reply])
  case set([Reply])
  case push([Reply])
  case map([Reply])

  struct Malformed: Error { let at: Int }

  /// Parses all frames in the bytes; throws if anything is left over.
  static func all(_ bytes: [UInt8]) throws -> [Reply] {
    var parser = Parser(bytes: bytes)
    var replies: [Reply] = []
    while parser.index < bytes.count { replies.append(try parser.frame()) }
    return replies
  }

  private struct Parser {
    let bytes: [UInt8]
    var index = 0

    mutating func frame() throws -> Reply {
      let type = try byte()
      switch type {
      case UInt8(ascii: "+"): return .simple(try line())
      case UInt8(ascii: "-"): return .error(try line())
      case UInt8(ascii: ":"): return .integer(try number())
      case UInt8(ascii: ","):
        let text = try line()
        guard Double(text) != nil else { throw Malformed(at: index) }
        return .double(text)
      case UInt8(ascii: "#"):
        switch try line() {
        case "t": return .boolean(true)
        case "f": return .boolean(false)
        default: throw Malformed(at: index)
        }
      case UInt8(ascii: "_"):
        guard try line() == "" else { throw Malformed(at: index) }
        return .null
      case UInt8(ascii: "$"):
        let count = try number()
        return count == -1 ? .null : .bulk(try text(count))
      case UInt8(ascii: "="):
        let text = try text(try number())
        guard text.hasPrefix("txt:") else { throw Malformed(at: index) }
        return .verbatim(String(text.dropFirst(4)))
      case UInt8(ascii: "*"): return .array(try frames(try number()))
      case UInt8(ascii: "~"): return .set(try frames(try number()))
      case UInt8(ascii: ">"): return .push(try frames(try number()))
      case UInt8(ascii: "%"): return .map(try frames(try number() * 2))
      default: throw Malformed(at: index)
      }
    }

    private mutating func byte() throws -> UInt8 {
      guard index < bytes.count else { throw Malformed(at: index) }
      defer { index += 1 }
      return bytes[index]
    }

    private mutating func line() throws -> String {
      var line: [UInt8] = []
      while true {
        let next = try byte()
        if next == 0x0D { break }
        guard next != 0x0A else { throw Malformed(at: index) }
        line.append(next)
      }
      guard try byte() == 0x0A else { throw Malformed(at: index) }
      return String(decoding: line, as: UTF8.self)
    }

    private mutating func number() throws -> Int64 {
      guard let number = Int64(try line()) else { throw Malformed(at: index) }
      return number
    }

    private mutating func text(_ count: Int64) throws -> String {
      guard count >= 0, index + Int(count) + 2 <= bytes.count else { throw Malformed(at: index) }
      defer { index += Int(count) + 2 }
      let end = index + Int(count)
      guard bytes[end] == 0x0D, bytes[end + 1] == 0x0A else { throw Malformed(at: end) }
      return String(decoding: bytes[index..<end], as: UTF8.self)
    }

    private mutating func frames(_ count: Int64) throws -> [Reply] {
      guard count >= 0 else { throw Malformed(at: index) }
      return try (0..<count).map { _ in try frame() }
    }
  }

  // MARK: Access

  var elements: [Reply] {
    switch self {
    case .array(let elements), .set(let elements), .push(let elements), .map(let elements):
      elements
    default: []
    }
  }

  /// Returns the value of a field of a map, which RESP2 writes as an array.
  subscript(_ name: String) -> Reply? {
    let all = elements
    return stride(from: 0, to: all.count - 1, by: 2).first { all[$0] == .bulk(name) }
      .map { all[$0 + 1] }
  }

  var text: String {
    switch self {
    case .simple(let text), .error(let text), .bulk(let text), .verbatim(let text),
      .double(let text):
      text
    case .integer(let value): "\(value)"
    case .boolean(let value): "\(value)"
    case .null: "null"
    case .array, .set, .push, .map: "\(elements.map(\.text))"
    }
  }
}
