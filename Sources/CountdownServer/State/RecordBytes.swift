import NIOCore

/// What the states that a store keeps as bytes are made of. Integers are big-endian.
extension ByteBuffer {
  /// Nil if what is there never was a list of these.
  mutating func readList<Element>(_ read: (inout ByteBuffer) -> Element?) -> [Element]? {
    guard let count = readInteger(as: UInt32.self), count <= readableBytes else { return nil }
    var list: [Element] = []
    list.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let element = read(&self) else { return nil }
      list.append(element)
    }
    return list
  }

  mutating func writeOptional(_ number: Int64?) {
    writeInteger(UInt8(number == nil ? 0 : 1))
    if let number { writeInteger(number) }
  }

  /// Nil if there is neither a number nor the word that there is none.
  mutating func readOptional() -> Int64?? {
    switch readInteger(as: UInt8.self) {
    case 0: .some(nil)
    case 1: readInteger(as: Int64.self).map { .some($0) }
    default: nil
    }
  }

  mutating func writeText(_ text: [UInt8]) {
    writeInteger(UInt32(text.count))
    writeBytes(text)
  }

  mutating func readText() -> [UInt8]? {
    readInteger(as: UInt32.self).flatMap { readBytes(length: Int($0)) }
  }

  mutating func writeOptionalText(_ text: [UInt8]?) {
    writeInteger(UInt8(text == nil ? 0 : 1))
    if let text { writeText(text) }
  }

  mutating func readOptionalText() -> [UInt8]?? {
    switch readInteger(as: UInt8.self) {
    case 0: .some(nil)
    case 1: readText().map { .some($0) }
    default: nil
    }
  }

  /// One of a few, by its name.
  mutating func write(choice: some RawRepresentable<String>) {
    writeText(Array(choice.rawValue.utf8))
  }

  mutating func readChoice<Choice: RawRepresentable<String>>() -> Choice? {
    readText().flatMap { Choice(rawValue: String(decoding: $0, as: UTF8.self)) }
  }
}
