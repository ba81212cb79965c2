import Wire

/// Writes the fields of a map to memory that is large enough, to be appended in one go.
struct MapText: FieldWriter {
  var text: ShortText
  let version: RESPEncoder.Version
  /// What the reader may do; nil for everything.
  let rights: Rights?

  @inline(__always)
  mutating func field(_ name: StaticString, _ value: Int64) {
    text.bulk(name)
    text.integer(value)
  }

  mutating func field(_ name: StaticString, _ value: Bool) {
    text.bulk(name)
    switch version {
    case .resp2: text.raw(value ? ":1\r\n" : ":0\r\n")
    case .resp3: text.raw(value ? "#t\r\n" : "#f\r\n")
    }
  }

  mutating func field(_ name: StaticString, _ value: Double) {
    text.bulk(name)
    let digits = "\(value)"
    switch version {
    case .resp2: text.bulk(digits.utf8.span)
    case .resp3:
      text.byte(UInt8(ascii: ","))
      text.raw(digits.utf8.span)
      text.newline()
    }
  }

  mutating func field(_ name: StaticString, _ value: String) {
    text.bulk(name)
    text.bulk(value.utf8.span)
  }

  @inline(__always)
  mutating func field(_ name: StaticString, _ value: StaticString) {
    text.bulk(name)
    text.bulk(value)
  }

  @inline(__always)
  mutating func field(_ name: StaticString, bytes: [UInt8]) {
    text.bulk(name)
    text.bulk(bytes.span)
  }

  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    text.bulk(name)
    header("*", list.count)
    for element in list { text.bulk(element.span) }
  }

  mutating func field(_ name: StaticString, records: [some FieldRecord]) {
    text.bulk(name)
    header("*", records.count)
    for record in records {
      let count = record.size.count
      switch version {
      case .resp2: header("*", count * 2)
      case .resp3: header("%", count)
      }
      record.write(to: &self)
    }
  }

  // MARK: Keys of other entities: null if the reader may not read them

  @inline(__always)
  mutating func field(_ name: StaticString, _ owner: Owner) {
    if rights.mayRead(owner) { write(name, owner) } else { null(name) }
  }

  mutating func field(_ name: StaticString, other key: [UInt8], of kind: EntityKind) {
    if rights.mayRead(kind, key.span) { field(name, bytes: key) } else { null(name) }
  }

  mutating func field(_ name: StaticString, others keys: [[UInt8]], of kind: EntityKind) {
    text.bulk(name)
    header("*", keys.count)
    for key in keys { if rights.mayRead(kind, key.span) { text.bulk(key.span) } else { null() } }
  }

  private mutating func header(_ type: StaticString, _ count: Int) {
    text.raw(type)
    text.decimal(Int64(count))
    text.newline()
  }

  @inline(__always)
  mutating func null(_ name: StaticString) {
    text.bulk(name)
    null()
  }

  @inline(__always)
  private mutating func null() { text.raw(version == .resp3 ? "_\r\n" : "$-1\r\n") }
}
