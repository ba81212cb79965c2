import Wire

/// Writes the named fields of a view, one after the other: as a reply, as JSON, or for the event
/// log.
package protocol FieldWriter: ~Copyable {
  mutating func field(_ name: StaticString, _ value: Int64)
  mutating func field(_ name: StaticString, _ value: Bool)
  mutating func field(_ name: StaticString, _ value: Double)
  mutating func field(_ name: StaticString, _ value: String)
  mutating func field(_ name: StaticString, _ value: StaticString)
  mutating func field(_ name: StaticString, bytes: [UInt8])
  mutating func field(_ name: StaticString, list: [[UInt8]])
  mutating func field(_ name: StaticString, records: [some FieldRecord])
  mutating func field(_ name: StaticString, _ owner: Owner)
  mutating func null(_ name: StaticString)
}

/// An element of a field that is a list. It has named fields of its own, none of which has records.
package protocol FieldRecord {
  func write(to writer: inout some FieldWriter & ~Copyable)
}

extension FieldRecord {
  var size: FieldSize {
    var size = FieldSize()
    write(to: &size)
    return size
  }
}

extension FieldWriter where Self: ~Copyable {
  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: Int64?) {
    if let value { field(name, value) } else { null(name) }
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: Double?) {
    if let value { field(name, value) } else { null(name) }
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ value: String?) {
    if let value { field(name, value) } else { null(name) }
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, bytes: [UInt8]?) {
    if let bytes { field(name, bytes: bytes) } else { null(name) }
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none: field(name, "none" as StaticString)
    case .connection(let id): field(name, "connection:\(id)")
    case .scope(let scope): field(name, bytes: Array("scope:".utf8) + scope.key)
    case .page(let page): field(name, bytes: Array("page:".utf8) + page.key)
    }
  }
}

/// Counts fields, and the most bytes that they take as a reply or in the event log.
///
/// Its methods are inlined into their callers, where little more than a sum is left.
struct FieldSize: FieldWriter {
  private(set) var count = 0
  private(set) var bytes = 0

  /// Bytes for a name of up to 32, for what is around name and value, and for a number's digits.
  private static let around = 80

  @inline(__always)
  private mutating func note(_ more: Int = 0) {
    count &+= 1
    bytes += more + Self.around
  }

  @inline(__always)
  mutating func field(_ name: StaticString, _ value: Int64) { note() }
  @inline(__always)
  mutating func field(_ name: StaticString, _ value: Bool) { note() }
  mutating func field(_ name: StaticString, _ value: Double) { note() }
  mutating func field(_ name: StaticString, _ value: String) { note(value.utf8.count) }
  @inline(__always)
  mutating func field(_ name: StaticString, bytes: [UInt8]) { note(bytes.count) }
  @inline(__always)
  mutating func null(_ name: StaticString) { note() }

  @inline(__always)
  mutating func field(_ name: StaticString, _ value: StaticString) { note(value.utf8CodeUnitCount) }

  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    note(list.reduce(0) { $0 + $1.count + Self.around })
  }

  mutating func field(_ name: StaticString, records: [some FieldRecord]) {
    note(records.reduce(0) { $0 + $1.size.bytes + Self.around })
  }

  @inline(__always)
  mutating func field(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none, .connection: note()
    case .scope(let owner), .page(let owner): note(owner.key.count)
    }
  }
}

extension RESPEncoder {
  /// Appends a view as a map.
  mutating func view(_ view: some EntityView, _ answer: Answer? = nil) {
    var answer = answer
    if isDegraded, answer?.reason == nil { answer?.reason = .degraded }
    var size = FieldSize()
    view.write(to: &size, answer: answer)
    map(size.count)
    // Large views are rare, and are appended field by field.
    guard size.bytes <= 4_096 else { return view.write(to: &self, answer: answer) }
    let version = version
    append(atMost: size.bytes) { text in
      var map = MapText(text: text, version: version)
      view.write(to: &map, answer: answer)
      text = map.text
    }
  }
}

extension Call {
  /// Replies with a view, and notes the decision if somebody keeps it.
  func reply(_ view: some EntityView, _ answer: Answer? = nil) {
    engine.journal?.note(
      answer, view.generation, retryAfterMS: view.retryAfterMS, limit: view.refusingLimit)
    session.output.view(view, answer)
  }

  func reply(_ view: (some EntityView)?) {
    if let view { reply(view) } else { session.output.null() }
  }

  func reply(_ answer: (isAccepted: Bool, view: some EntityView), refusal: Reason) {
    let reason = answer.isAccepted ? nil : refusal
    reply(answer.view, Answer(isAccepted: answer.isAccepted, reason: reason))
  }
}

/// Writes the fields of a map in a reply. The map's header, with their number, comes first.
extension RESPEncoder: FieldWriter {
  package mutating func field(_ name: StaticString, _ value: Int64) { pair(name, value) }

  package mutating func field(_ name: StaticString, _ value: Bool) {
    bulk(name)
    boolean(value)
  }

  package mutating func field(_ name: StaticString, _ value: Double) {
    bulk(name)
    double(value)
  }

  package mutating func field(_ name: StaticString, _ value: String) {
    bulk(name)
    bulk(value)
  }

  package mutating func field(_ name: StaticString, _ value: StaticString) { pair(name, value) }

  package mutating func field(_ name: StaticString, bytes: [UInt8]) {
    pair(name, bytes.span)
  }

  package mutating func field(_ name: StaticString, list: [[UInt8]]) {
    bulk(name)
    array(list.count)
    for element in list { bulk(element) }
  }

  package mutating func field(_ name: StaticString, records: [some FieldRecord]) {
    bulk(name)
    array(records.count)
    for record in records {
      map(record.size.count)
      record.write(to: &self)
    }
  }

  package mutating func null(_ name: StaticString) { pairWithNull(name) }
}
