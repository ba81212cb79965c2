/// Why bytes are not a valid reply. Later bytes cannot be decoded either: close the connection.
public enum ReplyDecoderError: Error, Hashable, Sendable {
  /// A line begins with a byte that names no type.
  case unknownType(UInt8)
  /// The content does not fit its type, such as a number with letters; type 0 is an empty line.
  case malformed(type: UInt8)
  /// A bulk is not followed by CR LF, or a line ends with LF alone.
  case missingLineEnd
  /// A length, count or depth exceeds `limit`, the value of that member of `ReplyDecoder.Limits`.
  case tooLong(String, limit: Int)
}

/// Decodes the bytes of a server into values, however the bytes are split.
///
///     var decoder = ReplyDecoder()
///     decoder.feed(bytes)
///     while let value = try decoder.next() { … }
///
/// Resumable: parses no byte twice, and checks each length against its limit before using it. Reads
/// and drops attributes (`|`). Refuses streamed strings and aggregates (`$?`, `*?`), which no Redis
/// server sends.
public struct ReplyDecoder: Sendable {
  /// The limits of one reply.
  public struct Limits: Sendable, Hashable {
    /// The most bytes in one bulk string.
    public var bulkLength = 64 << 20
    /// The most bytes in a line: a simple string, an error, a number or a length.
    public var lineLength = 64 << 10
    /// The most values in one reply, at all levels together.
    public var elements = 1 << 20
    /// The most levels of nested aggregates.
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
  /// The end of the bytes, from `head` on, that are known to contain no LF.
  private var scanned = 0
  private var open: [Aggregate] = []
  private var bulk: (kind: BulkKind, length: Int)?
  private var elements = 0
  private var failure: ReplyDecoderError?

  public init(limits: Limits = Limits()) {
    self.limits = limits
  }

  /// Appends received bytes. Amortized O(n).
  public mutating func feed(_ bytes: some Sequence<UInt8>) {
    guard failure == nil else { return }
    compact()
    buffer.append(contentsOf: bytes)
  }

  /// Returns the next complete value, or nil until more bytes arrive.
  ///
  /// - Throws: `ReplyDecoderError`; all later calls throw the same one.
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
    /// A complete value.
    case value(RESPValue)
    /// A header, or an empty attribute: no value yet.
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

  /// Adds a value to its aggregate; returns the outermost value once that is complete.
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

  /// Returns nil for an attribute: it describes the next value, and is dropped.
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

  /// Drops parsed bytes once they are half of the buffer: amortized O(1) per byte.
  private mutating func compact() {
    guard head > 0, head >= buffer.count / 2 else { return }
    buffer.removeSubrange(..<head)
    scanned -= head
    head = 0
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }

  /// Parses decimal digits with an optional sign; nil if they are invalid or out of range.
  private static func integer(_ text: ArraySlice<UInt8>) -> Int? {
    guard text.count <= 20 else { return nil }
    return Int(String(decoding: text, as: UTF8.self))
  }
}
