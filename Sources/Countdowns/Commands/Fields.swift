import Wire

/// Takes the named fields of a view, one after the other: as a reply, or as JSON.
protocol FieldWriter: ~Copyable {
  mutating func field(_ name: StaticString, _ value: Int64)
  mutating func field(_ name: StaticString, _ value: Bool)
  mutating func field(_ name: StaticString, _ value: Double)
  mutating func field(_ name: StaticString, _ value: String)
  mutating func field(_ name: StaticString, _ value: StaticString)
  mutating func field(_ name: StaticString, bytes: [UInt8])
  mutating func field(_ name: StaticString, list: [[UInt8]])
  mutating func null(_ name: StaticString)
}

extension FieldWriter where Self: ~Copyable {
  mutating func field(_ name: StaticString, _ value: Int64?) {
    if let value { field(name, value) } else { null(name) }
  }

  mutating func field(_ name: StaticString, _ value: Double?) {
    if let value { field(name, value) } else { null(name) }
  }

  mutating func field(_ name: StaticString, _ value: String?) {
    if let value { field(name, value) } else { null(name) }
  }

  mutating func field(_ name: StaticString, bytes: [UInt8]?) {
    if let bytes { field(name, bytes: bytes) } else { null(name) }
  }

  mutating func field(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none: field(name, "none" as StaticString)
    case .connection(let id): field(name, "connection:\(id)")
    case .scope(let scope): field(name, bytes: Array("scope:".utf8) + scope.key)
    case .page(let page): field(name, bytes: Array("page:".utf8) + page.key)
    }
  }
}

/// Fields as a map of a reply; the map's header, with their number, comes first.
extension RESPEncoder: FieldWriter {
  mutating func field(_ name: StaticString, _ value: Int64) { pair(name, value) }

  mutating func field(_ name: StaticString, _ value: Bool) {
    bulk(name)
    boolean(value)
  }

  mutating func field(_ name: StaticString, _ value: Double) {
    bulk(name)
    double(value)
  }

  mutating func field(_ name: StaticString, _ value: String) {
    bulk(name)
    bulk(value)
  }

  mutating func field(_ name: StaticString, _ value: StaticString) { pair(name, value) }

  mutating func field(_ name: StaticString, bytes: [UInt8]) {
    bytes.withUnsafeBytes { pair(name, $0) }
  }

  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    bulk(name)
    array(list.count)
    for element in list { bulk(element) }
  }

  mutating func null(_ name: StaticString) { pairWithNull(name) }
}
