import Wire

/// Takes the named fields of a view, one after the other: as a reply, as JSON, or for the event
/// log.
package protocol FieldWriter: ~Copyable {
  mutating func field(_ name: StaticString, _ value: Int64)
  mutating func field(_ name: StaticString, _ value: Bool)
  mutating func field(_ name: StaticString, _ value: Double)
  mutating func field(_ name: StaticString, _ value: String)
  mutating func field(_ name: StaticString, _ value: StaticString)
  mutating func field(_ name: StaticString, bytes: [UInt8])
  mutating func field(_ name: StaticString, list: [[UInt8]])
  mutating func field(_ name: StaticString, _ owner: Owner)
  mutating func null(_ name: StaticString)
}

extension FieldWriter where Self: ~Copyable {
  package mutating func field(_ name: StaticString, _ value: Int64?) {
    if let value { field(name, value) } else { null(name) }
  }

  package mutating func field(_ name: StaticString, _ value: Double?) {
    if let value { field(name, value) } else { null(name) }
  }

  package mutating func field(_ name: StaticString, _ value: String?) {
    if let value { field(name, value) } else { null(name) }
  }

  package mutating func field(_ name: StaticString, bytes: [UInt8]?) {
    if let bytes { field(name, bytes: bytes) } else { null(name) }
  }

  package mutating func field(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none: field(name, "none" as StaticString)
    case .connection(let id): field(name, "connection:\(id)")
    case .scope(let scope): field(name, bytes: Array("scope:".utf8) + scope.key)
    case .page(let page): field(name, bytes: Array("page:".utf8) + page.key)
    }
  }
}

/// Counts fields, and how many bytes they take at most as a reply or in the event log.
struct FieldSize: FieldWriter {
  private(set) var count = 0
  private(set) var bytes = 0

  /// Around a name and a value, and the digits of a number.
  private static let around = 48

  private mutating func note(_ name: StaticString, _ more: Int = 0) {
    count += 1
    bytes += name.utf8CodeUnitCount + more + Self.around
  }

  mutating func field(_ name: StaticString, _ value: Int64) { note(name) }
  mutating func field(_ name: StaticString, _ value: Bool) { note(name) }
  mutating func field(_ name: StaticString, _ value: Double) { note(name) }
  mutating func field(_ name: StaticString, _ value: String) { note(name, value.utf8.count) }
  mutating func field(_ name: StaticString, bytes: [UInt8]) { note(name, bytes.count) }
  mutating func null(_ name: StaticString) { note(name) }

  mutating func field(_ name: StaticString, _ value: StaticString) {
    note(name, value.utf8CodeUnitCount)
  }

  mutating func field(_ name: StaticString, list: [[UInt8]]) {
    note(name, list.reduce(0) { $0 + $1.count + Self.around })
  }

  mutating func field(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none, .connection: note(name)
    case .scope(let owner), .page(let owner): note(name, owner.key.count)
    }
  }
}

extension RESPEncoder {
  /// A view as a map.
  mutating func view(_ view: some EntityView, _ answer: Answer? = nil) {
    var size = FieldSize()
    view.write(to: &size, answer: answer)
    map(size.count)
    // What is large is rare, and appended field by field.
    guard size.bytes <= 2_048 else { return view.write(to: &self, answer: answer) }
    let version = version
    append(atMost: size.bytes) { text in
      var map = MapText(text: text, version: version)
      view.write(to: &map, answer: answer)
      text = map.text
    }
  }
}

extension Call {
  func reply(_ view: (some EntityView)?) {
    if let view { session.output.view(view) } else { session.output.null() }
  }

  func reply(_ answer: (isAccepted: Bool, view: some EntityView), refusal: Event.Reason) {
    let reason = answer.isAccepted ? nil : refusal
    session.output.view(answer.view, Answer(isAccepted: answer.isAccepted, reason: reason))
  }
}

/// Fields as a map of a reply; the map's header, with their number, comes first.
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

  package mutating func null(_ name: StaticString) { pairWithNull(name) }
}
