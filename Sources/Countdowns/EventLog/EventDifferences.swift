import Wire

/// Long records of a chunk that repeat most of an earlier one of the same entity are stored as the
/// difference to it.
///
/// Such a record has, instead of its key, the distance to the other one. After the generation come,
/// in turns, bytes of its own, and how many bytes of the other record's fields are passed over and
/// copied.
struct EventDifferences {
  /// Shorter records are whole.
  private static let shortest = 512
  /// How many equal bytes end a part that is not equal.
  private static let equal = 16
  /// How far such a part may go, in both records together.
  private static let farthest = 64
  /// How many such parts there may be; the rest is not compared.
  private static let maximumParts = 256

  /// Where the newest whole record of an entity begins, by its hash.
  private var offsets: [UInt64: Int] = [:]

  mutating func removeAll() { if !offsets.isEmpty { offsets.removeAll() } }

  @inline(__always)
  static func isLong(_ length: Int) -> Bool { length >= shortest }

  /// Replaces the last record of a chunk if its difference to an earlier one is much shorter.
  /// Returns whether it is.
  @inline(never)
  mutating func shorten(
    _ chunk: inout [UInt8], from begin: Int, _ kind: EntityKind, _ sequence: Int64, _ words: Words
  ) -> Bool {
    let record = Array(chunk[begin...])
    guard var reader = EventCoding.whole(record.span, at: 0), let key = reader.text() else {
      return false
    }
    let hash = kind.hash(of: key)
    let offset = offsets.updateValue(begin, forKey: hash)
    guard let offset, let old = Self.rest(of: chunk.span, at: offset, of: key) else { return false }
    chunk.removeLast(record.count)
    chunk.append(atMost: 2 * record.count + 64) { text in
      var writer = EventCoding.Writer(text, words)
      writer.integer(sequence)
      writer.byte(kind.rawValue | EventCoding.differs)
      writer.integer(Int64(begin - offset))
      EventDifferences.write(reader, EventCoding.Reader(old.span), to: &writer)
      text = writer.finish()
    }
    guard chunk.count - begin <= record.count / 2 else {
      chunk.removeLast(chunk.count - begin)
      chunk += record
      return false
    }
    offsets[hash] = offset
    return true
  }

  /// Returns what a whole record has after its key; nil if that is another key.
  private static func rest(
    of chunk: Span<UInt8>, at offset: Int, of key: Span<UInt8>
  ) -> [UInt8]? {
    guard var reader = EventCoding.whole(chunk, at: offset), let own = reader.text(),
      own.hasSameBytes(as: key)
    else { return nil }
    return Array(reader.left)
  }

  /// - Parameter record, other: after their keys.
  private static func write(
    _ record: EventCoding.Reader, _ other: EventCoding.Reader, to writer: inout EventCoding.Writer
  ) {
    guard let own = record.atFields?.left, let base = other.atFields?.left else { return }
    writer.raw(record.left.extracting(..<(record.left.count - own.count)))
    var (begin, offset) = (0, 0)
    var (skip, passed) = (0, 0)
    for _ in 0..<maximumParts {
      let count = commonLength(own, begin + skip, base, offset + passed)
      writer.integer(Int64(skip))
      writer.raw(own.extracting(begin..<begin + skip))
      writer.integer(Int64(passed))
      writer.integer(Int64(count))
      begin += skip + count
      offset += passed + count
      guard begin < own.count else { return }
      guard let next = nextEqual(own, begin, base, offset) else { break }
      (skip, passed) = next
    }
    writer.integer(Int64(own.count - begin))
    writer.raw(own.extracting(begin...))
    writer.integer(0)
    writer.integer(0)
  }

  private static func commonLength(
    _ a: Span<UInt8>, _ from: Int, _ b: Span<UInt8>, _ other: Int
  ) -> Int {
    let maximum = min(a.count - from, b.count - other)
    var count = 0
    while count + 8 <= maximum, a.word(at: from + count) == b.word(at: other + count) { count += 8 }
    while count < maximum, a[from + count] == b[other + count] { count += 1 }
    return count
  }

  /// Returns how many bytes are to be passed over in both until they are equal again for a while.
  private static func nextEqual(
    _ a: Span<UInt8>, _ from: Int, _ b: Span<UInt8>, _ other: Int
  ) -> (Int, Int)? {
    func isEqual(_ x: Int, _ y: Int) -> Bool {
      x + equal <= a.count && y + equal <= b.count && a.word(at: x) == b.word(at: y)
        && a.word(at: x + 8) == b.word(at: y + 8)
    }
    for both in 1...farthest {
      for own in 0...both where isEqual(from + own, other + both - own) {
        return (own, both - own)
      }
    }
    return nil
  }

  /// Returns the encoded fields of a record; nil if it is malformed.
  ///
  /// - Parameters:
  ///   - difference: after its generation.
  ///   - other: after its key.
  static func fields(
    _ difference: EventCoding.Reader, _ other: EventCoding.Reader
  ) -> [UInt8]? {
    guard var base = other.atFields else { return nil }
    var reader = difference
    var fields: [UInt8] = []
    while !reader.isAtEnd {
      guard let own = reader.text(), let passed = reader.integer(), base.text(passed) != nil,
        let copied = base.text(reader.integer())
      else { return nil }
      fields.append(own)
      fields.append(copied)
    }
    return fields
  }
}

extension EventCoding.Reader {
  /// The reader of a record after its key, at its first field; nil if it is malformed.
  fileprivate var atFields: Self? {
    @_lifetime(copy self)
    get {
      var reader = self
      return reader.word() != nil && reader.integer() != nil ? reader : nil
    }
  }
}

extension [UInt8] {
  fileprivate mutating func append(_ bytes: Span<UInt8>) {
    append(atMost: bytes.count) { $0.raw(bytes) }
  }
}
