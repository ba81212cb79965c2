import Wire

/// Events as bytes: about 80 for a start, a quarter of what subscribers receive.
///
/// A version byte, then records: their length in 4 bytes, sequence number, kind and key, and then the
/// name of the event, its generation, and its fields. A field is the code of its name, a tag, and a
/// value. So whoever reads them needs to know neither kinds nor fields; what is written outlives the
/// program, and codes are never given another meaning (see `Words`). Integers are LEB128, zigzag.
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
  static func append(
    _ head: Event.Head, _ kind: EntityKind, key: UnsafeRawBufferPointer,
    to bytes: inout [UInt8], _ words: inout Words, _ size: FieldSize,
    _ rest: (inout Writer) -> Void
  ) {
    let around = 64
    withUnsafeTemporaryAllocation(
      byteCount: around + key.count + size.bytes, alignment: 8
    ) { memory in
      var writer = Writer(text: ShortText(memory), words: words)
      // The length, which is known at the end.
      writer.text.raw("    ")
      writer.integer(head.sequence)
      writer.text.byte(kind.rawValue)
      writer.bytes(key)
      writer.word(head.name.text)
      writer.integer(head.generation.value &- head.sequence)
      rest(&writer)
      words = writer.words
      let count = writer.text.count
      memory.storeBytes(of: UInt32(count - 4).littleEndian, as: UInt32.self)
      bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: memory[..<count]))
    }
  }

  /// Fields as the log keeps them.
  struct Writer: FieldWriter {
    fileprivate var text: ShortText
    fileprivate var words: Words

    fileprivate mutating func integer(_ value: Int64) {
      var rest = UInt64(bitPattern: value << 1 ^ value >> 63)
      while rest >= 0x80 {
        text.byte(UInt8(truncatingIfNeeded: rest) | 0x80)
        rest >>= 7
      }
      text.byte(UInt8(truncatingIfNeeded: rest))
    }

    fileprivate mutating func bytes(_ bytes: UnsafeRawBufferPointer) {
      integer(Int64(bytes.count))
      text.raw(bytes)
    }

    /// Its code; a word without one is written out.
    fileprivate mutating func word(_ word: StaticString) {
      let code = words.code(of: word)
      text.byte(code)
      if code == Words.none {
        bytes(word.bytes)
      }
    }

    private mutating func begin(_ name: StaticString, _ tag: Tag) {
      word(name)
      text.byte(tag.rawValue)
    }

    mutating func field(_ name: StaticString, _ value: Int64) {
      begin(name, .integer)
      integer(value)
    }

    mutating func field(_ name: StaticString, _ value: Bool) { begin(name, value ? .yes : .no) }

    mutating func field(_ name: StaticString, _ value: Double) {
      begin(name, .double)
      withUnsafeBytes(of: value.bitPattern.littleEndian) { text.raw($0) }
    }

    mutating func field(_ name: StaticString, _ value: String) {
      begin(name, .text)
      var value = value
      value.withUTF8 { bytes(UnsafeRawBufferPointer($0)) }
    }

    mutating func field(_ name: StaticString, _ value: StaticString) {
      begin(name, .word)
      word(value)
    }

    mutating func field(_ name: StaticString, bytes value: [UInt8]) {
      begin(name, .text)
      value.withUnsafeBytes { bytes($0) }
    }

    mutating func field(_ name: StaticString, list: [[UInt8]]) {
      begin(name, .list)
      integer(Int64(list.count))
      for element in list { element.withUnsafeBytes { bytes($0) } }
    }

    mutating func null(_ name: StaticString) { begin(name, .null) }
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

    mutating func integer() -> Int64? {
      var value: UInt64 = 0
      for place in 0..<10 as Range<UInt64> {
        guard let next = byte() else { return nil }
        value |= UInt64(next & 0x7F) << (7 * place)
        if next < 0x80 { return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1) }
      }
      return nil
    }

    /// Lent as long as the bytes are.
    mutating func text() -> UnsafeRawBufferPointer? {
      guard let length = integer(), length >= 0, length <= bytes.count - position else {
        return nil
      }
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
      guard let name = word(), let tag = byte().flatMap(Tag.init) else { return false }
      switch tag {
      case .null: line.null(named: name)
      case .yes: line.field(named: name, true)
      case .no: line.field(named: name, false)
      case .integer:
        guard let value = integer() else { return false }
        line.field(named: name, value)
      case .double:
        guard bytes.count - position >= 8 else { return false }
        let bits = take(8).loadUnaligned(as: UInt64.self)
        line.field(named: name, Double(bitPattern: UInt64(littleEndian: bits)))
      case .text, .word:
        guard let value = tag == .text ? text() : word() else { return false }
        line.field(named: name, bytes: value)
      case .list:
        guard let count = integer(), count >= 0, count <= bytes.count - position else {
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
