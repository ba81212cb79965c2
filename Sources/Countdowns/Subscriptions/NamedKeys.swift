import Wire

/// A key of another entity that the line of an event has.
struct NamedKey: Sendable {
  let kind: EntityKind
  let key: [UInt8]
  /// What `null` replaces for users who may not read the key.
  let range: Range<Int>
  let null: [UInt8]
}

extension Rights {
  /// Returns the line of an event with null instead of each key that may not be read; nil if there
  /// is none.
  ///
  /// - Parameter keys: the keys in the line, for other readers; nil while they are not known.
  func masked(_ line: Span<UInt8>, of kind: EntityKind, _ keys: inout [NamedKey]?) -> [UInt8]? {
    guard !isAdmin else { return nil }
    let found = keys ?? NamedKey.all(in: line, of: kind)
    keys = found
    var (masked, copied) = ([UInt8](), 0)
    for named in found where !mayRead(named.kind, named.key.span) {
      masked += Array(line.extracting(copied..<named.range.lowerBound)) + named.null
      copied = named.range.upperBound
    }
    return copied == 0 ? nil : masked + Array(line.extracting(copied...))
  }
}

extension NamedKey {
  /// A field of events that has keys of other entities: of a kind, or owners.
  private struct Place: Sendable {
    let name: [UInt8]
    let kind: EntityKind?
  }

  /// These fields, by the kind of the event, as the schema has them.
  private static let places: [[Place]] = EntityKind.allCases.map { kind in
    func places(_ fields: [Field]) -> [Place] {
      fields.flatMap { field in
        if case .list(.record(_, let fields)) = field.type { return places(fields) }
        guard field.other != nil || field.type == .owner.orNull else { return [] }
        return [Place(name: Array(field.name.utf8), kind: field.other)]
      }
    }
    func all<K: Kind>(_: K.Type) -> [Place] { places(K.fields + K.events.flatMap(\.extra)) }
    return all(kind.behavior)
  }

  private static let base64Ending = Array("_base64".utf8)
  private static let (quote, backslash) = (UInt8(ascii: "\""), UInt8(ascii: "\\"))

  /// Returns the keys of other entities in a line that `JSONLine` has written. O(its length).
  static func all(in line: Span<UInt8>, of kind: EntityKind) -> [NamedKey] {
    let places = places[Int(kind.rawValue)]
    guard !places.isEmpty else { return [] }
    let line = Array(line)
    var (keys, index) = ([NamedKey](), 0)
    var field: (place: Place, start: Int, isBase64: Bool)?
    while let (start, end) = nextString(of: line, from: index) {
      let text = line[(start + 1)..<end]
      index = end + 1
      if index < line.count, line[index] == UInt8(ascii: ":") {
        let isBase64 = text.suffix(base64Ending.count).elementsEqual(base64Ending)
        let bare = isBase64 ? text.dropLast(base64Ending.count) : text
        field = places.first { bare.elementsEqual($0.name) }.map { ($0, start, isBase64) }
        continue
      }
      guard let (place, fieldStart, isBase64) = field else { continue }
      let value = isBase64 ? base64(text) : unescaped(text)
      guard let (kind, key) = place.kind.map({ ($0, value) }) ?? entity(ofOwner: value) else {
        continue
      }
      // Null is no base64, so the name loses that ending; not that of a list.
      let isInList = line[start - 1] != UInt8(ascii: ":")
      let name = isInList ? [] : [quote] + place.name + [quote, UInt8(ascii: ":")]
      keys.append(
        NamedKey(
          kind: kind, key: key, range: (isInList ? start : fieldStart)..<index,
          null: name + Array("null".utf8)))
    }
    return keys
  }

  private static func entity(ofOwner value: [UInt8]) -> (EntityKind, [UInt8])? {
    EntityKind.owners.first { value.starts(with: $0.channelPrefix) }.map {
      ($0, Array(value.dropFirst($0.channelPrefix.count)))
    }
  }

  // MARK: Strings, as JSONLine writes them

  /// Returns where the quotes of the next string are.
  private static func nextString(
    of line: [UInt8], from index: Int
  ) -> (start: Int, end: Int)? {
    guard let start = line[index...].firstIndex(of: quote) else { return nil }
    var end = start + 1
    while end < line.count, line[end] != quote { end += line[end] == backslash ? 2 : 1 }
    return end < line.count ? (start, end) : nil
  }

  private static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    var rest = text
    while let byte = rest.popFirst() {
      guard byte == backslash, let letter = rest.popFirst() else {
        bytes.append(byte)
        continue
      }
      switch letter {
      case UInt8(ascii: "n"): bytes.append(0x0A)
      case UInt8(ascii: "r"): bytes.append(0x0D)
      case UInt8(ascii: "t"): bytes.append(0x09)
      case UInt8(ascii: "u"):
        bytes.append(UInt8(String(decoding: rest.prefix(4), as: UTF8.self), radix: 16) ?? 0)
        rest = rest.dropFirst(4)
      default: bytes.append(letter)
      }
    }
    return bytes
  }

  private static func base64(_ text: ArraySlice<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    var (bits, count): (UInt32, Int) = (0, 0)
    for digit in text {
      guard let value = JSONLine.base64Digits.firstIndex(of: digit) else { break }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return bytes
  }
}
