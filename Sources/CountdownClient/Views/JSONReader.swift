import Wire

extension RESPValue {
  /// Reads a JSON object as the equivalent map of a reply, sorted by name; nil for any other JSON,
  /// for a name that is there twice, and for values nested more than 32 deep.
  public init?(json: String) {
    var reader = JSONReader(json)
    guard let value = try? reader.document() else { return nil }
    self = value
  }
}

/// Reads JSON (RFC 8259) in one pass. `JSONDecoder` takes ten times as long for an event.
private struct JSONReader {
  struct Invalid: Error {}

  private static let deepest = 32

  /// The text, and a zero, which JSON nowhere has: so no step needs to look for the end.
  private let bytes: [UInt8]
  private var at = 0

  init(_ text: String) { bytes = Array(text.utf8) + [0] }

  mutating func document() throws(Invalid) -> RESPValue {
    skipSpace()
    guard bytes[at] == UInt8(ascii: "{") else { throw Invalid() }
    let value = try object(0)
    skipSpace()
    guard at == bytes.count - 1 else { throw Invalid() }
    return value
  }

  private mutating func skipSpace() {
    while [0x20, 0x0A, 0x0D, 0x09].contains(bytes[at]) { at += 1 }
  }

  private mutating func take(_ byte: Unicode.Scalar) throws(Invalid) {
    guard bytes[at] == UInt8(ascii: byte) else { throw Invalid() }
    at += 1
  }

  private mutating func value(_ depth: Int) throws(Invalid) -> RESPValue {
    guard depth <= Self.deepest else { throw Invalid() }
    switch bytes[at] {
    case UInt8(ascii: "\""): return .bulkString(try string())
    case UInt8(ascii: "{"): return try object(depth)
    case UInt8(ascii: "["): return try array(depth)
    case UInt8(ascii: "t"): return try word("true", .boolean(true))
    case UInt8(ascii: "f"): return try word("false", .boolean(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return try number()
    }
  }

  private mutating func word(_ word: String, _ value: RESPValue) throws(Invalid) -> RESPValue {
    for byte in word.unicodeScalars { try take(byte) }
    return value
  }

  // MARK: Objects and arrays

  private mutating func object(_ depth: Int) throws(Invalid) -> RESPValue {
    var members: [(name: [UInt8], value: RESPValue)] = []
    try list(until: UInt8(ascii: "}")) { reader throws(Invalid) in
      let name = try reader.string()
      reader.skipSpace()
      try reader.take(":")
      reader.skipSpace()
      members.append((name, try reader.value(depth + 1)))
    }
    members.sort { $0.name.lexicographicallyPrecedes($1.name) }
    for (member, next) in zip(members, members.dropFirst()) where member.name == next.name {
      throw Invalid()
    }
    return .map(members.map { .init(.bulkString($0.name), $0.value) })
  }

  private mutating func array(_ depth: Int) throws(Invalid) -> RESPValue {
    var elements: [RESPValue] = []
    try list(until: UInt8(ascii: "]")) { reader throws(Invalid) in
      elements.append(try reader.value(depth + 1))
    }
    return .array(elements)
  }

  /// Reads elements with commas between them, from bracket to bracket.
  private mutating func list(
    until end: UInt8, _ element: (inout Self) throws(Invalid) -> Void
  ) throws(Invalid) {
    at += 1
    skipSpace()
    if bytes[at] == end {
      at += 1
      return
    }
    while true {
      try element(&self)
      skipSpace()
      let isLast = bytes[at] == end
      guard isLast || bytes[at] == UInt8(ascii: ",") else { throw Invalid() }
      at += 1
      if isLast { return }
      skipSpace()
    }
  }

  // MARK: Strings

  private mutating func string() throws(Invalid) -> [UInt8] {
    try take("\"")
    let begin = at
    while bytes[at] >= 0x20, bytes[at] != UInt8(ascii: "\""), bytes[at] != UInt8(ascii: "\\") {
      at += 1
    }
    var text = Array(bytes[begin..<at])
    while bytes[at] != UInt8(ascii: "\"") {
      guard bytes[at] >= 0x20 else { throw Invalid() }
      let byte = bytes[at]
      at += 1
      if byte == UInt8(ascii: "\\") { try escape(into: &text) } else { text.append(byte) }
    }
    at += 1
    return text
  }

  private mutating func escape(into text: inout [UInt8]) throws(Invalid) {
    let letter = bytes[at]
    at += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(letter)
    case UInt8(ascii: "b"): text.append(0x08)
    case UInt8(ascii: "f"): text.append(0x0C)
    case UInt8(ascii: "n"): text.append(0x0A)
    case UInt8(ascii: "r"): text.append(0x0D)
    case UInt8(ascii: "t"): text.append(0x09)
    case UInt8(ascii: "u"):
      var code = try codeUnit()
      if (0xD800..<0xDC00).contains(code) {
        try take("\\")
        try take("u")
        let low = try codeUnit()
        guard (0xDC00..<0xE000).contains(low) else { throw Invalid() }
        code = 0x1_0000 + (code - 0xD800) << 10 + (low - 0xDC00)
      }
      guard let scalar = Unicode.Scalar(code) else { throw Invalid() }
      text.append(contentsOf: UTF8.encode(scalar)!)
    default: throw Invalid()
    }
  }

  private mutating func codeUnit() throws(Invalid) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = Character(Unicode.Scalar(bytes[at])).hexDigitValue else { throw Invalid() }
      unit = unit << 4 + UInt32(digit)
      at += 1
    }
    return unit
  }

  // MARK: Numbers

  private mutating func number() throws(Invalid) -> RESPValue {
    let begin = at
    var isWhole = true
    if bytes[at] == UInt8(ascii: "-") { at += 1 }
    if bytes[at] == UInt8(ascii: "0") { at += 1 } else { try digits() }
    if bytes[at] == UInt8(ascii: ".") {
      at += 1
      try digits()
      isWhole = false
    }
    if bytes[at] | 0x20 == UInt8(ascii: "e") {
      at += 1
      if [UInt8(ascii: "+"), UInt8(ascii: "-")].contains(bytes[at]) { at += 1 }
      try digits()
      isWhole = false
    }
    let text = String(decoding: bytes[begin..<at], as: UTF8.self)
    if isWhole, let integer = Int(text) { return .integer(integer) }
    guard let number = Double(text), number.isFinite else { throw Invalid() }
    return Int(exactly: number).map(RESPValue.integer) ?? .double(number)
  }

  private mutating func digits() throws(Invalid) {
    let begin = at
    while (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[at]) { at += 1 }
    guard at > begin else { throw Invalid() }
  }
}
