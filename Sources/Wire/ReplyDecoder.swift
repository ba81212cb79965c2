/// Why bytes cannot be a reply. After one of these the stream has no meaning any more: close it.
public enum ReplyDecoderError: Error, Hashable, Sendable {
  /// A line begins with a byte that names no type.
  case unknownType(UInt8)
  /// A number, boolean or null is not spelled as one.
  case malformed(type: UInt8)
  /// A bulk is not followed by CR LF, or a line ends with LF alone.
  case missingLineEnd
  /// A length is below -1, or beyond `limit`, the value of the `ReplyDecoder.Limits` member named.
  case tooLong(String, limit: Int)
}

/// Turns the bytes of a server into values, however they are cut into pieces.
///
///     var decoder = ReplyDecoder()
///     decoder.feed(bytes)
///     while let value = try decoder.next() { … }
///
/// Resumable: no byte is parsed twice, and a length is believed only up to its limit, before
/// anything is computed from it or allocated for it. Attributes (`|`) are read and dropped.
/// Streamed strings and aggregates (`$?`, `*?`) are refused; no Redis server sends them.
public struct ReplyDecoder: Sendable {
  /// What a reply may cost.
  public struct Limits: Sendable, Hashable {
    /// Bytes in one bulk string.
    public var bulkLength = 64 << 20
    /// Bytes in a line: a simple string, an error, a number or a length.
    public var lineLength = 64 << 10
    /// Values in one reply, all levels together.
    public var elements = 1 << 20
    /// Aggregates within aggregates.
    public var depth = 32

    public init() {}
  }

  /// An aggregate whose values are still coming.
  private struct Aggregate {
    enum Kind { case array, map, set, push, attribute }

    let kind: Kind
    var missing: Int
    var values: [RESPValue] = []
  }

  private enum BulkKind { case string, error, verbatim }

  private let limits: Limits
  private var buffer: [UInt8] = []
  /// Everything before this index has been parsed.
  private var head = 0
  /// There is no LF between `head` and here.
  private var scanned = 0
  private var open: [Aggregate] = []
  private var bulk: (kind: BulkKind, length: Int)?
  private var elements = 0
  private var failure: ReplyDecoderError?

  public init(limits: Limits = Limits()) {
    self.limits = limits
  }

  /// Takes in bytes as they came. Amortized O(n).
  public mutating func feed(_ bytes: some Sequence<UInt8>) {
    guard failure == nil else { return }
    compact()
    buffer.append(contentsOf: bytes)
  }

  /// The next whole value, or nil until more bytes have come.
  ///
  /// - Throws: `ReplyDecoderError`, and then always the same one.
  public mutating func next() throws(ReplyDecoderError) -> RESPValue? {
    if let failure { throw failure }
    do {
      while true {
        guard let piece = try nextPiece() else { return nil }
        if case .value(let value) = piece, let whole = close(with: value) {
          elements = 0
          return whole
        }
      }
    } catch {
      failure = error
      buffer = []
      open = []
      throw error
    }
  }

  // MARK: Pieces

  private enum Piece {
    /// A value that needs nothing more.
    case value(RESPValue)
    /// The beginning of one: its length is noted.
    case opening
  }

  private mutating func nextPiece() throws(ReplyDecoderError) -> Piece? {
    if let bulk { return try finishBulk(bulk.kind, length: bulk.length) }
    guard let line = try nextLine() else { return nil }
    guard let type = line.first else { throw .malformed(type: 0) }
    elements += 1
    guard elements <= limits.elements else { throw .tooLong("elements", limit: limits.elements) }
    return try begin(type, line.dropFirst())
  }

  private mutating func begin(
    _ type: UInt8, _ text: ArraySlice<UInt8>
  ) throws(ReplyDecoderError) -> Piece {
    switch type {
    case UInt8(ascii: "+"): return .value(.simpleString(String(decoding: text, as: UTF8.self)))
    case UInt8(ascii: "-"): return .value(.error(String(decoding: text, as: UTF8.self)))
    case UInt8(ascii: ":"):
      guard let value = Self.integer(text) else { throw .malformed(type: type) }
      return .value(.integer(value))
    case UInt8(ascii: ","):
      guard let value = Double(String(decoding: text, as: UTF8.self)) else {
        throw .malformed(type: type)
      }
      return .value(.double(value))
    case UInt8(ascii: "#"):
      if text.elementsEqual("t".utf8) { return .value(.boolean(true)) }
      if text.elementsEqual("f".utf8) { return .value(.boolean(false)) }
      throw .malformed(type: type)
    case UInt8(ascii: "_"):
      guard text.isEmpty else { throw .malformed(type: type) }
      return .value(.null)
    case UInt8(ascii: "("):
      let digits = text.first == UInt8(ascii: "-") ? text.dropFirst() : text
      guard !digits.isEmpty, digits.allSatisfy(Self.isDigit) else { throw .malformed(type: type) }
      return .value(.bigNumber(String(decoding: text, as: UTF8.self)))
    case UInt8(ascii: "$"): return try beginBulk(.string, type, text)
    case UInt8(ascii: "!"): return try beginBulk(.error, type, text)
    case UInt8(ascii: "="): return try beginBulk(.verbatim, type, text)
    case UInt8(ascii: "*"): return try beginAggregate(.array, type, text)
    case UInt8(ascii: "~"): return try beginAggregate(.set, type, text)
    case UInt8(ascii: ">"): return try beginAggregate(.push, type, text)
    case UInt8(ascii: "%"): return try beginAggregate(.map, type, text)
    case UInt8(ascii: "|"): return try beginAggregate(.attribute, type, text)
    default: throw .unknownType(type)
    }
  }

  private mutating func beginBulk(
    _ kind: BulkKind, _ type: UInt8, _ text: ArraySlice<UInt8>
  ) throws(ReplyDecoderError) -> Piece {
    guard let length = Self.integer(text) else { throw .malformed(type: type) }
    if length == -1, kind == .string { return .value(.null) }
    guard length >= 0 else { throw .malformed(type: type) }
    guard length <= limits.bulkLength else {
      throw .tooLong("bulkLength", limit: limits.bulkLength)
    }
    bulk = (kind, length)
    return .opening
  }

  private mutating func finishBulk(
    _ kind: BulkKind, length: Int
  ) throws(ReplyDecoderError) -> Piece? {
    guard buffer.count - head >= length + 2 else { return nil }
    let end = head + length
    guard buffer[end] == UInt8(ascii: "\r"), buffer[end + 1] == UInt8(ascii: "\n") else {
      throw .missingLineEnd
    }
    let bytes = buffer[head..<end]
    head = end + 2
    scanned = head
    bulk = nil
    switch kind {
    case .string: return .value(.bulkString(Array(bytes)))
    case .error: return .value(.error(String(decoding: bytes, as: UTF8.self)))
    case .verbatim:
      guard bytes.count >= 4, bytes[bytes.startIndex + 3] == UInt8(ascii: ":") else {
        throw .malformed(type: UInt8(ascii: "="))
      }
      let format = String(decoding: bytes.prefix(3), as: UTF8.self)
      return .value(.verbatim(format: format, text: Array(bytes.dropFirst(4))))
    }
  }

  private mutating func beginAggregate(
    _ kind: Aggregate.Kind, _ type: UInt8, _ text: ArraySlice<UInt8>
  ) throws(ReplyDecoderError) -> Piece {
    guard let count = Self.integer(text) else { throw .malformed(type: type) }
    if count == -1, kind == .array { return .value(.null) }
    guard count >= 0 else { throw .malformed(type: type) }
    guard count <= limits.elements else { throw .tooLong("elements", limit: limits.elements) }
    if count == 0 {
      let empty = Aggregate(kind: kind, missing: 0)
      return Self.value(of: empty).map { .value($0) } ?? .opening
    }
    guard open.count < limits.depth else { throw .tooLong("depth", limit: limits.depth) }
    let perEntry = kind == .map || kind == .attribute ? 2 : 1
    open.append(Aggregate(kind: kind, missing: count * perEntry))
    return .opening
  }

  /// Puts a value where it belongs; the outermost one when that makes it whole.
  private mutating func close(with value: RESPValue) -> RESPValue? {
    var value = value
    while !open.isEmpty {
      let last = open.count - 1
      open[last].values.append(value)
      open[last].missing -= 1
      guard open[last].missing == 0 else { return nil }
      guard let whole = Self.value(of: open.removeLast()) else { return nil }
      value = whole
    }
    return value
  }

  /// Nil for an attribute: it says something about the value after it, which nobody asks.
  private static func value(of aggregate: Aggregate) -> RESPValue? {
    switch aggregate.kind {
    case .array: return .array(aggregate.values)
    case .set: return .set(aggregate.values)
    case .push: return .push(aggregate.values)
    case .attribute: return nil
    case .map:
      let values = aggregate.values
      return .map(
        stride(from: 0, to: values.count, by: 2).map { .init(values[$0], values[$0 + 1]) })
    }
  }

  // MARK: Bytes

  private mutating func nextLine() throws(ReplyDecoderError) -> ArraySlice<UInt8>? {
    guard let end = buffer[scanned...].firstIndex(of: UInt8(ascii: "\n")) else {
      scanned = buffer.count
      guard buffer.count - head <= limits.lineLength else {
        throw .tooLong("lineLength", limit: limits.lineLength)
      }
      return nil
    }
    guard end - head <= limits.lineLength + 1 else {
      throw .tooLong("lineLength", limit: limits.lineLength)
    }
    guard end > head, buffer[end - 1] == UInt8(ascii: "\r") else { throw .missingLineEnd }
    let line = buffer[head..<end - 1]
    head = end + 1
    scanned = head
    return line
  }

  /// Forgets what has been parsed, once that is most of the buffer: O(1) per byte over time.
  private mutating func compact() {
    guard head > 0, head >= buffer.count / 2 else { return }
    buffer.removeSubrange(..<head)
    scanned -= head
    head = 0
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }

  /// Decimal digits, perhaps with a sign; nil when it is not that or does not fit.
  private static func integer(_ text: ArraySlice<UInt8>) -> Int? {
    guard text.count <= 20 else { return nil }
    return Int(String(decoding: text, as: UTF8.self))
  }
}
