import Wire

/// Events as bytes: about 70 for a start, a quarter of what subscribers receive.
///
/// A header, then records: the length in 4 bytes, sequence number, kind, key, name of the
/// event, generation minus sequence number, and fields. A field is the code of its name, a tag and
/// a value, so a reader needs to know neither kinds nor fields. Events outlive the program, so the
/// meaning of a code never changes (see `Words`). Integers are zigzag, little-endian, without
/// trailing zero bytes; the upper half of the byte before holds their length.
///
/// A long record may be only the difference to an earlier one: see `EventDifferences`.
package enum EventCoding {
  /// Stands for no user in particular: such events are of earlier releases, or of other hosts.
  package static let noUser = UInt32.max
  /// The header is this byte only: an earlier release, or a fleet, has no users.
  private static let version: UInt8 = 2
  /// The header is this byte, the user in 4 bytes, and the number of events in 4 bytes.
  private static let versionOfUser: UInt8 = 3
  package static let headerLengthOfUser = 9

  static func headerLength(_ bytes: [UInt8]) -> Int {
    bytes.first == versionOfUser ? headerLengthOfUser : 1
  }

  /// - Parameter user: nil for a header without users.
  static func begin(_ bytes: inout [UInt8], _ user: UInt32?) {
    guard let user else { return bytes.append(version) }
    bytes.append(versionOfUser)
    for index in 0..<4 { bytes.append(UInt8(truncatingIfNeeded: user >> (8 * UInt32(index)))) }
    for _ in 0..<4 { bytes.append(0) }
  }

  /// Writes the number of events into the header, if it has one.
  static func setCount(_ count: Int, of bytes: inout [UInt8]) {
    guard bytes.first == versionOfUser, bytes.count >= headerLengthOfUser else { return }
    for index in 0..<4 { bytes[5 + index] = UInt8(truncatingIfNeeded: count >> (8 * index)) }
  }

  /// Returns the user and the number of events that a header has; nil if it has none.
  package static func user(of bytes: Span<UInt8>) -> (user: UInt32, count: Int)? {
    guard bytes.count >= headerLengthOfUser, bytes[0] == versionOfUser else { return nil }
    let user = UInt32(truncatingIfNeeded: bytes.word(at: 1, count: 4))
    return (user, Int(bytes.word(at: 5, count: 4)))
  }

  fileprivate enum Tag: UInt8 {
    case null, yes, no, integer, double, text, word, list, records
  }

  // MARK: Writing

  /// - Parameters:
  ///   - size: the most bytes that `rest` writes: all fields after `seq`.
  @inline(__always)
  static func append(
    _ head: Event.Head, _ kind: EntityKind, key: Span<UInt8>,
    to bytes: inout [UInt8], _ words: Words, _ size: Int, _ rest: (inout Writer) -> Void
  ) {
    bytes.append(atMost: overhead + key.count + size) { text in
      var writer = Writer(text, words)
      writer.begin(head.sequence, kind, key)
      writer.tail(head, rest)
      text = writer.finish()
    }
  }

  /// The most bytes of a record besides its key and its fields.
  private static let overhead = 96

  /// The bytes of a record after its key, for records that share them.
  struct Tail {
    /// The values that determine a tail, for events that report only numbers.
    struct TailKey: Equatable {
      /// The generation minus the sequence number.
      var ahead: Int64
      var nowUnixMS: Int64
      var deadlineUnixMS: Int64
      var left: Interval
      var plan: Countdown.Plan
      var sends: UInt32
    }

    private(set) var bytes: [UInt8] = []
    private var tailKey: TailKey?

    /// - Parameter size: the most bytes that `rest` writes.
    @inline(__always)
    mutating func update(
      _ tailKey: TailKey, _ head: Event.Head, _ words: Words, _ size: Int,
      _ rest: (inout Writer) -> Void
    ) {
      guard tailKey != self.tailKey else { return }
      self.tailKey = tailKey
      bytes.removeAll(keepingCapacity: true)
      bytes.append(atMost: EventCoding.overhead + size) { text in
        var writer = Writer(text, words)
        writer.tail(head, rest)
        text = writer.finish()
      }
    }
  }

  /// Appends a record with a tail that is encoded already.
  @inline(__always)
  static func append(
    _ sequence: Int64, _ kind: EntityKind, key: Span<UInt8>, _ tail: borrowing Tail,
    to bytes: inout [UInt8], _ words: Words
  ) {
    bytes.append(atMost: overhead + key.count + tail.bytes.count) { text in
      var writer = Writer(text, words)
      writer.begin(sequence, kind, key)
      writer.raw(tail.bytes.span.extracting(Writer.lengthBytes...))
      text = writer.finish()
    }
  }

  /// Writes fields in the format of the log, to memory that `FieldSize` has found large enough.
  struct Writer: FieldWriter, ~Copyable {
    private var text: ShortText
    private let words: Words

    fileprivate static let lengthBytes = 4

    /// Leaves room for the length of the record, which `finish` writes.
    @inline(__always)
    init(_ text: ShortText, _ words: Words) {
      self.text = text
      self.text.word(0, count: Self.lengthBytes)
      self.words = words
    }

    @inline(__always)
    consuming func finish() -> ShortText {
      text.overwrite(at: 0, with: UInt32(text.count - Self.lengthBytes))
      return text
    }

    /// Writes a record up to and including its key.
    @inline(__always)
    fileprivate mutating func begin(_ sequence: Int64, _ kind: EntityKind, _ key: Span<UInt8>) {
      integer(sequence)
      byte(kind.rawValue)
      bytes(key)
    }

    /// Writes the tail of a record, after its key.
    @inline(__always)
    fileprivate mutating func tail(_ head: Event.Head, _ rest: (inout Writer) -> Void) {
      word(head.name.text)
      integer(head.generation.value &- head.sequence)
      rest(&self)
    }

    @inline(__always)
    mutating func byte(_ byte: UInt8) { text.byte(byte) }

    mutating func raw(_ bytes: Span<UInt8>) { text.raw(bytes) }

    /// Returns the zigzag bits of an integer, and their length in bytes.
    @inline(__always)
    private static func zigzag(_ value: Int64) -> (bits: UInt64, length: UInt64) {
      let bits = UInt64(bitPattern: value &<< 1 ^ value &>> 63)
      return (bits, UInt64(truncatingIfNeeded: (71 &- bits.leadingZeroBitCount) &>> 3))
    }

    @inline(__always)
    mutating func integer(_ value: Int64, _ tag: UInt8 = 0) {
      let (bits, length) = Self.zigzag(value)
      let first = UInt64(tag) | length << 4
      if length < 8 { return text.word(first | bits << 8, count: Int(length) + 1) }
      text.word(first, count: 1)
      text.word(bits, count: 8)
    }

    @inline(__always)
    fileprivate mutating func bytes(_ bytes: Span<UInt8>, _ tag: UInt8 = 0) {
      integer(Int64(bytes.count), tag)
      text.raw(bytes)
    }

    /// Writes the code of a word; a word without a code is written out.
    @inline(__always)
    fileprivate mutating func word(_ word: StaticString) {
      let code = words.code(of: word)
      byte(code)
      if code == Words.none { bytes(word.bytes) }
    }

    @inline(__always)
    mutating func field(_ name: StaticString, _ value: Int64) {
      let code = words.code(of: name)
      let (bits, length) = Self.zigzag(value)
      guard length <= 6, code != Words.none else { return anyField(name, value) }
      let first = UInt64(code) | UInt64(Tag.integer.rawValue) << 8 | UInt64(length) << 12
      text.word(first | bits << 16, count: Int(length) + 2)
    }

    @inline(never)
    private mutating func anyField(_ name: StaticString, _ value: Int64) {
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
      text.word(value.bitPattern, count: 8)
    }

    mutating func field(_ name: StaticString, _ value: String) {
      word(name)
      bytes(value.utf8.span, Tag.text.rawValue)
    }

    @inline(__always)
    mutating func field(_ name: StaticString, _ value: StaticString) {
      word(name)
      byte(Tag.word.rawValue)
      word(value)
    }

    @inline(__always)
    mutating func field(_ name: StaticString, bytes value: [UInt8]) {
      word(name)
      bytes(value.span, Tag.text.rawValue)
    }

    mutating func field(_ name: StaticString, list: [[UInt8]]) {
      word(name)
      integer(Int64(list.count), Tag.list.rawValue)
      for element in list { bytes(element.span) }
    }

    mutating func field(_ name: StaticString, records: [some FieldRecord]) {
      word(name)
      integer(Int64(records.count), Tag.records.rawValue)
      for record in records {
        byte(UInt8(record.size.count))
        record.write(to: &self)
      }
    }

    @inline(__always)
    mutating func null(_ name: StaticString) {
      word(name)
      byte(Tag.null.rawValue)
    }
  }

  // MARK: Reading

  /// Returns the number of events; nil if the bytes are malformed or of an unknown version.
  static func count(_ bytes: [UInt8]) -> Int? {
    let header = user(of: bytes.span)
    guard header != nil || bytes.first ?? version == version else { return nil }
    var count = 0
    let isValid = forEach(bytes) { _ in
      count += 1
      return true
    }
    return isValid && header?.count ?? count == count ? count : nil
  }

  /// Calls `body` with each event. Stops and returns false if `body` does, or at a malformed event.
  package static func forEach(_ bytes: [UInt8], _ body: (LoggedEvent) -> Bool) -> Bool {
    var position = 0
    return forEach(bytes, from: &position, body)
  }

  /// - Parameters:
  ///   - position: where to begin, at first 0; then where `body` has stopped.
  ///   - number: events up to this number are skipped.
  static func forEach(
    _ bytes: [UInt8], from position: inout Int, after number: Int64 = .min,
    _ body: (LoggedEvent) -> Bool
  ) -> Bool {
    position = max(position, headerLength(bytes))
    let bytes = bytes.span
    while position < bytes.count {
      let begin = position + 4
      guard begin <= bytes.count else { return false }
      let length = Int(bytes.word(at: position, count: 4))
      guard begin + length <= bytes.count else { return false }
      var reader = Reader(bytes.extracting(begin..<begin + length))
      guard let sequence = reader.integer() else { return false }
      if sequence > number {
        guard let first = reader.byte(), let kind = EntityKind(rawValue: first & ~differs) else {
          return false
        }
        var base = reader
        if first & differs != 0 {
          // The key and most fields are those of a record before.
          guard let distance = reader.integer(), distance > 0, distance <= position,
            let found = whole(bytes, at: position - Int(distance))
          else { return false }
          base = found
        }
        guard let key = base.text() else { return false }
        if first & differs == 0 { reader = base }
        guard
          body(
            LoggedEvent(
              sequence, kind, Array(key), rest: reader, base: base,
              isDifference: first & differs != 0))
        else { return false }
      }
      position = begin + length
    }
    return true
  }

  /// Marks the kind of a record that is a difference.
  static let differs: UInt8 = 0x80

  /// Returns a reader at the key of a record that is no difference; nil if there is none.
  @_lifetime(copy bytes)
  static func whole(_ bytes: Span<UInt8>, at position: Int) -> Reader? {
    guard position + 4 <= bytes.count else { return nil }
    let end = position + 4 + Int(bytes.word(at: position, count: 4))
    guard end <= bytes.count else { return nil }
    var reader = Reader(bytes.extracting(position + 4..<end))
    guard reader.integer() != nil, let first = reader.byte(), first & differs == 0 else {
      return nil
    }
    return reader
  }

  struct Reader: ~Escapable {
    private let bytes: Span<UInt8>
    private var position = 0

    @_lifetime(copy bytes)
    init(_ bytes: Span<UInt8>) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    var left: Span<UInt8> {
      @_lifetime(copy self)
      get { bytes.extracting(position...) }
    }

    mutating func byte() -> UInt8? {
      guard position < bytes.count else { return nil }
      defer { position += 1 }
      return bytes[position]
    }

    mutating func integer() -> Int64? { byte().flatMap { integer(length: $0 >> 4) } }

    private mutating func integer(length: UInt8) -> Int64? {
      guard length <= 8, Int(length) <= bytes.count - position else { return nil }
      let bits = bytes.word(at: position, count: Int(length))
      position += Int(length)
      return Int64(bitPattern: bits >> 1) ^ -Int64(bitPattern: bits & 1)
    }

    /// Reads a text, which is valid for as long as the bytes are.
    @_lifetime(copy self)
    mutating func text() -> Span<UInt8>? { text(integer()) }

    @_lifetime(copy self)
    mutating func text(_ length: Int64?) -> Span<UInt8>? {
      guard let length, length >= 0, length <= bytes.count - position else { return nil }
      return take(Int(length))
    }

    @_lifetime(copy self)
    mutating func word() -> Span<UInt8>? {
      guard let code = byte() else { return nil }
      guard code != Words.none else { return text() }
      return if let word = Words.word(of: code) { word.bytes } else { nil }
    }

    @_lifetime(copy self)
    private mutating func take(_ count: Int) -> Span<UInt8> {
      defer { position += count }
      return bytes.extracting(position..<position + count)
    }

    /// Writes the next field to a line. Returns false if the field is missing or malformed.
    fileprivate mutating func writeField(to line: inout JSONLine, inRecord: Bool = false) -> Bool {
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
        line.field(named: name, Double(bitPattern: take(8).word(at: 0)))
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
      case .records:
        guard !inRecord, let count = integer(length: first >> 4), count >= 0 else { return false }
        line.beginRecords(named: name)
        for index in 0..<count {
          guard let fields = byte() else { return false }
          line.beginRecord(isFirst: index == 0)
          for _ in 0..<fields {
            guard writeField(to: &line, inRecord: true) else { return false }
          }
          line.endRecord()
        }
        line.endRecords()
      }
      return true
    }
  }
}

/// An event in the format of the log. Its fields are borrowed.
package struct LoggedEvent: ~Escapable {
  package let sequence: Int64
  package let kind: EntityKind
  package let key: [UInt8]
  private let rest: EventCoding.Reader
  /// The record to which `rest` is a difference, after its key.
  private let base: EventCoding.Reader
  private let isDifference: Bool

  @_lifetime(copy rest, copy base)
  fileprivate init(
    _ sequence: Int64, _ kind: EntityKind, _ key: [UInt8], rest: EventCoding.Reader,
    base: EventCoding.Reader, isDifference: Bool
  ) {
    self.sequence = sequence
    self.kind = kind
    self.key = key
    self.rest = rest
    self.base = base
    self.isDifference = isDifference
  }

  /// Calls `body` with the encoded fields. Returns nil if they are malformed.
  private func withFields<T>(
    _ reader: EventCoding.Reader, _ body: (Span<UInt8>) -> T?
  ) -> T? {
    guard isDifference else { return body(reader.left) }
    guard let fields = EventDifferences.fields(reader, base) else { return nil }
    return body(fields.span)
  }

  var name: Event.Name? {
    var reader = rest
    guard let name = reader.word() else { return nil }
    return Event.Name.allCases.first { $0.text.bytes.hasSameBytes(as: name) }
  }

  /// Appends the event with another sequence number; appends nothing if the event is malformed.
  func append(as sequence: Int64, to bytes: inout [UInt8], _ words: Words) {
    var reader = rest
    guard let name = reader.word(), let generation = reader.integer() else { return }
    let code = Words.code(of: name)
    let overhead = 96
    withFields(reader) { fields -> Void? in
      bytes.append(atMost: overhead + key.count + name.count + fields.count) { text in
        var writer = EventCoding.Writer(text, words)
        writer.integer(sequence)
        writer.byte(kind.rawValue)
        writer.bytes(key.span)
        writer.byte(code)
        if code == Words.none { writer.bytes(name) }
        writer.integer(generation &+ self.sequence &- sequence)
        writer.raw(fields)
        text = writer.finish()
      }
    }
  }

  /// Returns the line of JSON that subscribers received; nil if the event is malformed.
  ///
  /// - Parameters:
  ///   - number: replaces the event's sequence number.
  ///   - position: the field `position`, which an event of a fleet's stream has.
  package func encoded(as number: Int64? = nil, position: String? = nil) -> [UInt8]? {
    var reader = rest
    guard let name = reader.word(), let generation = reader.integer() else { return nil }
    var line = JSONLine()
    line.begin()
    line.begin(
      name, key: key.span, Generation(generation &+ sequence), number ?? sequence)
    let isWhole: Void? = withFields(reader) { fields in
      var reader = EventCoding.Reader(fields)
      while !reader.isAtEnd {
        guard reader.writeField(to: &line) else { return nil }
      }
    }
    guard isWhole != nil else { return nil }
    if let position { line.field("position", position) }
    line.end()
    return Array(line.bytes)
  }
}
