import Wire

/// Events as bytes: about 70 for a start, a quarter of what subscribers receive.
///
/// A version byte, then records: their length in 4 bytes, sequence number, kind and key, and then the
/// name of the event, its generation, and its fields. A field is the code of its name, a tag, and a
/// value. So whoever reads them needs to know neither kinds nor fields; what is written outlives the
/// program, and codes are never given another meaning (see `Words`). Integers are zigzag, little-endian,
/// without the zeros at the end; how many bytes that leaves is in the upper half of the byte before.
enum EventCoding {
  static let headerLength = 1
  private static let version: UInt8 = 2

  static func begin(_ bytes: inout [UInt8]) { bytes.append(version) }

  fileprivate enum Tag: UInt8 {
    case null, yes, no, integer, double, text, word, list
  }

  // MARK: Writing

  /// - Parameters:
  ///   - size: of what `rest` writes: all fields after `seq`.
  @inline(__always)
  static func append(
    _ head: Event.Head, _ kind: EntityKind, key: UnsafeRawBufferPointer,
    to bytes: inout [UInt8], _ words: inout Words, _ size: FieldSize,
    _ rest: (inout Writer) -> Void
  ) {
    words.withCache { cache in
      let around = 96
      withUnsafeTemporaryAllocation(
        byteCount: around + key.count + size.bytes, alignment: 8
      ) { memory in
        var writer = Writer(memory, cache)
        writer.integer(head.sequence)
        writer.byte(kind.rawValue)
        writer.bytes(key)
        writer.word(head.name.text)
        writer.integer(head.generation.value &- head.sequence)
        rest(&writer)
        let count = writer.count
        memory.storeBytes(of: UInt32(count - 4).littleEndian, as: UInt32.self)
        bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: memory[..<count]))
      }
    }
  }

  /// Fields as the log keeps them, in memory that `FieldSize` has found large enough.
  struct Writer: FieldWriter {
    private let start: UnsafeMutableRawPointer
    private var end: UnsafeMutableRawPointer
    private let limit: UnsafeMutableRawPointer
    private let cache: Words.Cache

    /// The length of the record comes first, once it is known.
    fileprivate init(_ memory: UnsafeMutableRawBufferPointer, _ cache: Words.Cache) {
      start = memory.baseAddress!
      end = start + 4
      limit = start + memory.count
      self.cache = cache
    }

    fileprivate var count: Int { end - start }

    @inline(__always)
    private func check(_ room: Int) {
      precondition(limit - end >= room, "the memory is large enough")
    }

    @inline(__always)
    fileprivate mutating func byte(_ byte: UInt8) {
      check(1)
      end.storeBytes(of: byte, as: UInt8.self)
      end += 1
    }

    @inline(__always)
    fileprivate mutating func integer(_ value: Int64, _ tag: UInt8 = 0) {
      let bits = UInt64(bitPattern: value << 1 ^ value >> 63)
      let length = (71 - bits.leadingZeroBitCount) >> 3
      check(9)
      end.storeBytes(of: tag | UInt8(truncatingIfNeeded: length << 4), as: UInt8.self)
      // The bytes behind it are overwritten by what follows.
      (end + 1).storeBytes(of: bits.littleEndian, as: UInt64.self)
      end += 1 + length
    }

    @inline(__always)
    fileprivate mutating func bytes(_ bytes: UnsafeRawBufferPointer, _ tag: UInt8 = 0) {
      integer(Int64(bytes.count), tag)
      guard let source = bytes.baseAddress else { return }
      check(bytes.count)
      end.copyMemory(from: source, byteCount: bytes.count)
      end += bytes.count
    }

    /// Its code; a word without one is written out.
    @inline(__always)
    fileprivate mutating func word(_ word: StaticString) {
      let code = Words.code(of: word, cache)
      byte(code)
      if code == Words.none { bytes(word.bytes) }
    }

    mutating func field(_ name: StaticString, _ value: Int64) {
      word(name)
      integer(value, Tag.integer.rawValue)
    }

    mutating func field(_ name: StaticString, _ value: Bool) {
      word(name)
      byte((value ? Tag.yes : Tag.no).rawValue)
    }

    mutating func field(_ name: StaticString, _ value: Double) {
      word(name)
      byte(Tag.double.rawValue)
      check(8)
      end.storeBytes(of: value.bitPattern.littleEndian, as: UInt64.self)
      end += 8
    }

    mutating func field(_ name: StaticString, _ value: String) {
      word(name)
      var value = value
      value.withUTF8 { bytes(UnsafeRawBufferPointer($0), Tag.text.rawValue) }
    }

    mutating func field(_ name: StaticString, _ value: StaticString) {
      word(name)
      byte(Tag.word.rawValue)
      word(value)
    }

    mutating func field(_ name: StaticString, bytes value: [UInt8]) {
      word(name)
      value.withUnsafeBytes { bytes($0, Tag.text.rawValue) }
    }

    mutating func field(_ name: StaticString, list: [[UInt8]]) {
      word(name)
      integer(Int64(list.count), Tag.list.rawValue)
      for element in list { element.withUnsafeBytes { bytes($0) } }
    }

    mutating func null(_ name: StaticString) {
      word(name)
      byte(Tag.null.rawValue)
    }
  }

  // MARK: Reading

  /// How many events there are; nil if these bytes never were written here.
  static func count(_ bytes: [UInt8]) -> Int? {
    guard bytes.first ?? version == version else { return nil }
    var count = 0
    let makesSense = forEach(bytes) { _ in
      count += 1
      return true
    }
    return makesSense ? count : nil
  }

  /// False if `body` was, or what is there makes no sense.
  static func forEach(_ bytes: [UInt8], _ body: (LoggedEvent) -> Bool) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var position = headerLength
      while position < bytes.count {
        guard position + 4 <= bytes.count else { return false }
        let length = Int(
          UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self)))
        position += 4
        guard position + length <= bytes.count else { return false }
        var reader = Reader(
          bytes: UnsafeRawBufferPointer(rebasing: bytes[position..<position + length]))
        position += length
        guard let sequence = reader.integer(), let kind = reader.byte().flatMap(EntityKind.init),
          let key = reader.text()
        else { return false }
        let event = LoggedEvent(
          sequence: sequence, kind: kind, key: Array(key), rest: reader)
        guard body(event) else { return false }
      }
      return true
    }
  }

  struct Reader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func byte() -> UInt8? {
      guard position < bytes.count else { return nil }
      defer { position += 1 }
      return bytes[position]
    }

    mutating func integer() -> Int64? { byte().flatMap { integer(length: $0 >> 4) } }

    private mutating func integer(length: UInt8) -> Int64? {
      guard length <= 8, Int(length) <= bytes.count - position else { return nil }
      var bits: UInt64 = 0
      for place in 0..<UInt64(length) {
        bits |= UInt64(bytes[position + Int(place)]) << (8 * place)
      }
      position += Int(length)
      return Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1)
    }

    /// Lent as long as the bytes are.
    mutating func text() -> UnsafeRawBufferPointer? { text(integer()) }

    private mutating func text(_ length: Int64?) -> UnsafeRawBufferPointer? {
      guard let length, length >= 0, length <= bytes.count - position else { return nil }
      return take(Int(length))
    }

    fileprivate mutating func word() -> UnsafeRawBufferPointer? {
      guard let code = byte() else { return nil }
      guard code != Words.none else { return text() }
      return Words.word(of: code)?.bytes
    }

    private mutating func take(_ count: Int) -> UnsafeRawBufferPointer {
      defer { position += count }
      return UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
    }

    /// Writes the next field to a line; false if there is none that makes sense.
    fileprivate mutating func writeField(to line: inout JSONLine) -> Bool {
      guard let name = word(), let first = byte(), let tag = Tag(rawValue: first & 15) else {
        return false
      }
      switch tag {
      case .null: line.null(named: name)
      case .yes: line.field(named: name, true)
      case .no: line.field(named: name, false)
      case .integer:
        guard let value = integer(length: first >> 4) else { return false }
        line.field(named: name, value)
      case .double:
        guard bytes.count - position >= 8 else { return false }
        let bits = take(8).loadUnaligned(as: UInt64.self)
        line.field(named: name, Double(bitPattern: UInt64(littleEndian: bits)))
      case .text, .word:
        guard let value = tag == .text ? text(integer(length: first >> 4)) : word() else {
          return false
        }
        line.field(named: name, bytes: value)
      case .list:
        guard let count = integer(length: first >> 4), count >= 0, count <= bytes.count - position
        else {
          return false
        }
        var list: [[UInt8]] = []
        for _ in 0..<count {
          guard let element = text() else { return false }
          list.append(Array(element))
        }
        line.field(named: name, list: list)
      }
      return true
    }
  }
}

/// An event as the log keeps it. Its fields are lent: read them before anything else is logged.
package struct LoggedEvent {
  package let sequence: Int64
  package let kind: EntityKind
  package let key: [UInt8]
  fileprivate let rest: EventCoding.Reader

  /// The line of JSON that subscribers received; nil if it never was written here.
  package func encoded() -> [UInt8]? {
    var reader = rest
    guard let name = reader.word(), let generation = reader.integer() else { return nil }
    var line = JSONLine()
    key.withUnsafeBytes {
      line.begin(name, key: $0, Generation(generation &+ sequence), sequence)
    }
    while !reader.isAtEnd {
      guard reader.writeField(to: &line) else { return nil }
    }
    return Array(line.finish())
  }
}
