import Wire

/// Values as bytes. Integers are big-endian, at their full width. A text follows its length; an
/// optional value follows a byte that is 1 if there is a value. Names are not written.
extension Stored {
  /// - Parameter offset: the store's clock is this many microseconds ahead of the boot clock.
  package func bytes(offset: Int64) -> [UInt8] {
    var writer = StateWriter(offset: offset)
    var value = self
    value.fields(&writer)
    return writer.bytes
  }

  /// Reads a value; nil if the bytes are not an encoding of one.
  package init?(bytes: [UInt8], offset: Int64) {
    var reader = StateReader(bytes[...], offset: offset)
    self = .blank
    fields(&reader)
    guard !reader.hasFailed, reader.bytesLeft == 0 else { return nil }
  }
}

package struct StateWriter: StateVisitor {
  package static var isReading: Bool { false }
  package let offset: Int64
  package var format = EntityRecord.plain
  package var hasFailed: Bool { false }
  package private(set) var bytes: [UInt8] = []

  package init(offset: Int64) { self.offset = offset }

  package mutating func fail() {}

  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: inout UInt8) { integer(value) }
  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: inout UInt32) { integer(value) }
  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: inout Int64) { integer(value) }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: inout Int64?) {
    integer(value == nil ? 0 : 1 as UInt8)
    if let value { integer(value) }
  }

  package mutating func field(_ name: StaticString, _ value: inout [UInt8]) { text(value) }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: inout [UInt8]?) {
    integer(value == nil ? 0 : 1 as UInt8)
    if let value { text(value) }
  }

  mutating func text(_ text: [UInt8]) { self.text(text.span) }

  mutating func text(_ text: Span<UInt8>) {
    bytes.append(atMost: text.count + 8) {
      $0.word(UInt64(UInt32(text.count).bigEndian), count: 4)
      $0.raw(text)
    }
  }

  @inline(__always)
  mutating func integer(_ value: some FixedWidthInteger) {
    bytes.append(atMost: 8) {
      $0.word(UInt64(truncatingIfNeeded: value.bigEndian), count: value.bitWidth / 8)
    }
  }

  /// Writes a length and then the bytes that `body` writes.
  @inline(__always)
  mutating func measured(_ body: (inout StateWriter) -> Void) {
    let start = bytes.count
    integer(UInt32(0))
    body(&self)
    let length = UInt32(bytes.count - start - 4)
    for index in 0..<4 {
      bytes[start + index] = UInt8(truncatingIfNeeded: length >> (24 - 8 * index))
    }
  }

  /// Writes a length and then the bytes that `body` writes, in one append.
  ///
  /// - Parameter maximum: the most bytes that `body` writes.
  @inline(__always)
  mutating func measured(atMost maximum: Int, _ body: (inout ShortText) -> Void) {
    bytes.append(atMost: maximum + 16) { text in
      text.word(0, count: 4)
      body(&text)
      text.overwrite(at: 0, with: UInt32(text.count - 4).bigEndian)
    }
  }

  mutating func removeAll(keepingCapacity: Bool) {
    bytes.removeAll(keepingCapacity: keepingCapacity)
  }
}

package struct StateReader: StateVisitor {
  package static var isReading: Bool { true }
  package let offset: Int64
  package var format = EntityRecord.plain
  package private(set) var hasFailed = false
  private let bytes: ArraySlice<UInt8>
  private var position: Int

  package init(_ bytes: ArraySlice<UInt8>, offset: Int64) {
    self.offset = offset
    self.bytes = bytes
    position = bytes.startIndex
  }

  package var bytesLeft: Int { bytes.endIndex - position }

  package mutating func fail() { hasFailed = true }

  package mutating func field(_ name: StaticString, _ value: inout UInt8) { value = integer() }
  package mutating func field(_ name: StaticString, _ value: inout UInt32) { value = integer() }
  package mutating func field(_ name: StaticString, _ value: inout Int64) { value = integer() }

  package mutating func field(_ name: StaticString, _ value: inout Int64?) {
    value = isPresent() ? integer() : nil
  }

  package mutating func field(_ name: StaticString, _ value: inout [UInt8]) { value = text() }

  package mutating func field(_ name: StaticString, _ value: inout [UInt8]?) {
    value = isPresent() ? text() : nil
  }

  private mutating func isPresent() -> Bool {
    let flag: UInt8 = integer()
    if flag > 1 { fail() }
    return flag == 1
  }

  private mutating func text() -> [UInt8] { Array(measured()) }

  /// Reads a length and then so many bytes.
  mutating func measured() -> ArraySlice<UInt8> { take(Int(integer() as UInt32)) }

  @inline(__always)
  private mutating func integer<Number: FixedWidthInteger & BitwiseCopyable>() -> Number {
    let size = MemoryLayout<Number>.size
    guard size <= bytesLeft else {
      fail()
      return 0
    }
    let offset = position - bytes.startIndex
    position += size
    return Number(
      bigEndian: unsafe bytes.span.bytes.unsafeLoadUnaligned(
        fromByteOffset: offset, as: Number.self))
  }

  /// Reads `count` bytes; fails if fewer are left.
  private mutating func take(_ count: Int) -> ArraySlice<UInt8> {
    guard count <= bytesLeft else {
      fail()
      return []
    }
    defer { position += count }
    return bytes[position..<position + count]
  }
}

// MARK: Values stored as bytes only

extension StateVisitor {
  /// Visits the version of a format. Reading fails unless it is the known one.
  mutating func version(_ known: UInt8) {
    var version = known
    field("version", &version)
    require(version == known)
  }

  /// Visits one of a few choices, by its name.
  mutating func choice<Choice: RawRepresentable<String>>(
    _ name: StaticString, _ value: inout Choice
  ) {
    var text = Array(value.rawValue.utf8)
    field(name, &text)
    guard Self.isReading else { return }
    if let read = Choice(rawValue: String(decoding: text, as: UTF8.self)) {
      value = read
    } else {
      fail()
    }
  }

  /// Visits the length of a list and then its elements.
  ///
  /// - Parameter blank: the initial element, which reading replaces.
  mutating func list<Element>(
    _ name: StaticString, _ list: inout [Element], blank: Element,
    _ element: (inout Self, inout Element) -> Void
  ) {
    var count = UInt32(list.count)
    field(name, &count)
    if Self.isReading {
      // Each element takes at least one byte.
      guard count <= bytesLeft else { return fail() }
      list = Array(repeating: blank, count: Int(count))
    }
    for index in list.indices where !hasFailed { element(&self, &list[index]) }
  }

  mutating func list<Element: Stored>(_ name: StaticString, _ list: inout [Element]) {
    self.list(name, &list, blank: .blank) { $1.fields(&$0) }
  }
}
