import Wire

/// Visits the named fields of a view, one after the other: to write them as a reply, as JSON or for
/// the event log, to measure or to describe them.
package protocol FieldWriter: ~Copyable {
  /// Tells what the next field means.
  mutating func describe(_ field: @autoclosure () -> Field)
  mutating func field(_ name: StaticString, _ value: Int64)
  mutating func field(_ name: StaticString, _ value: Bool)
  mutating func field(_ name: StaticString, _ value: Double)
  mutating func field(_ name: StaticString, _ value: String)
  mutating func field(_ name: StaticString, _ value: StaticString)
  mutating func field(_ name: StaticString, bytes: [UInt8])
  mutating func field(_ name: StaticString, list: [[UInt8]])
  mutating func field(_ name: StaticString, records: [some FieldRecord])
  mutating func field(_ name: StaticString, _ owner: Owner)
  /// Writes the key of another entity.
  mutating func field(_ name: StaticString, other key: [UInt8], of kind: EntityKind)
  /// Writes the keys of other entities.
  mutating func field(_ name: StaticString, others keys: [[UInt8]], of kind: EntityKind)
  mutating func null(_ name: StaticString)
}

/// An element of a field that is a list. It has named fields of its own, none of which has records.
package protocol FieldRecord {
  /// A value that has all fields, to describe them.
  static var blank: Self { get }

  func write(to writer: inout some FieldWriter & ~Copyable)
}

extension FieldRecord {
  /// What its fields mean.
  static var fields: [Field] {
    var list = FieldList()
    blank.write(to: &list)
    return list.fields
  }

  var size: FieldSize {
    var size = FieldSize()
    write(to: &size)
    return size
  }
}

extension FieldWriter where Self: ~Copyable {
  @inline(__always)
  package mutating func describe(_ field: @autoclosure () -> Field) {}

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
  package mutating func field(_ name: StaticString, other key: [UInt8], of kind: EntityKind) {
    field(name, bytes: key)
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, other key: [UInt8]?, of kind: EntityKind) {
    if let key { field(name, other: key, of: kind) } else { null(name) }
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, others keys: [[UInt8]], of kind: EntityKind) {
    field(name, list: keys)
  }

  @inline(__always)
  package mutating func field(_ name: StaticString, _ owner: Owner) { write(name, owner) }

  @inline(__always)
  mutating func write(_ name: StaticString, _ owner: Owner) {
    switch owner {
    case .none: field(name, "none" as StaticString)
    case .connection(let id): field(name, "connection:\(id)")
    case .scope(let scope): field(name, bytes: Array("scope:".utf8) + scope.key)
    case .page(let page): field(name, bytes: Array("page:".utf8) + page.key)
    }
  }
}

/// Fields with what they mean: all fields of replies.
extension FieldWriter where Self: ~Copyable {
  @inline(__always)
  mutating func field(
    _ name: StaticString, _ value: Int64?, _ type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", type(), help()))
    field(name, value)
  }

  @inline(__always)
  mutating func field(_ name: StaticString, _ value: Bool, _ help: @autoclosure () -> String) {
    describe(Field("\(name)", .boolean, help()))
    field(name, value)
  }

  @inline(__always)
  mutating func fraction(_ value: Double?, _ help: @autoclosure () -> String) {
    describe(Field("fraction", .fraction.orNull, help()))
    field("fraction", value)
  }

  @inline(__always)
  mutating func field(
    _ name: StaticString, _ value: String?, _ type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", type(), help()))
    field(name, value)
  }

  @inline(__always)
  mutating func field(
    _ name: StaticString, _ value: Literal?, _ type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", type(), help()))
    if let value { field(name, value.text) } else { null(name) }
  }

  @inline(__always)
  mutating func field(
    _ name: StaticString, bytes: [UInt8]?, _ type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", type(), help()))
    field(name, bytes: bytes)
  }

  /// Writes the key of another entity; null for readers who may not read that.
  @inline(__always)
  mutating func field(
    _ name: StaticString, other key: [UInt8]?, of kind: EntityKind,
    _ type: @autoclosure () -> ValueType, _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", type().orNull, help(), keyOf: kind))
    field(name, other: key, of: kind)
  }

  mutating func field(
    _ name: StaticString, others keys: [[UInt8]], of kind: EntityKind,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", .list(.key.orNull), help(), keyOf: kind))
    field(name, others: keys, of: kind)
  }

  mutating func field(
    _ name: StaticString, list: [[UInt8]], of type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", .list(type()), help()))
    field(name, list: list)
  }

  mutating func field(
    _ name: StaticString, records: [some FieldRecord], _ type: @autoclosure () -> ValueType,
    _ help: @autoclosure () -> String
  ) {
    describe(Field("\(name)", .list(type()), help()))
    field(name, records: records)
  }

  mutating func field(
    _ name: StaticString, list: [String], _ help: @autoclosure () -> String
  ) {
    field(name, list: list.map { Array($0.utf8) }, of: .text(), help())
  }

  /// Writes one of a few choices by its name.
  @inline(__always)
  mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
    _ name: StaticString, _ value: Choice, _ help: @autoclosure () -> String
  ) {
    field(name, value.rawValue, .choice(Choice.self), help())
  }

  @inline(__always)
  mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
    _ name: StaticString, _ value: Choice?, _ help: @autoclosure () -> String
  ) {
    field(name, value?.rawValue, .choice(Choice.self).orNull, help())
  }

  // MARK: Fields of several kinds

  @inline(__always)
  mutating func key(_ key: [UInt8], _ help: @autoclosure () -> String = "The key.") {
    field("key", bytes: key, .key, help())
  }

  @inline(__always)
  mutating func generation(
    _ generation: Generation, _ help: @autoclosure () -> String = "The fencing token."
  ) {
    field("generation", generation.value, .generation, help())
  }

  @inline(__always)
  mutating func owner(_ owner: Owner, _ help: @autoclosure () -> String = "Its owner.") {
    describe(Field("owner", .owner.orNull, help()))
    field("owner", owner)
  }

  @inline(__always)
  mutating func now(_ nowUnixMS: Int64) {
    field("now_unix_ms", nowUnixMS, .moment, "The daemon's clock.")
  }

  /// Writes the time left, the deadline and the current time, in milliseconds.
  @inline(__always)
  mutating func time(
    left: Int64?, until deadlineUnixMS: Int64?, now nowUnixMS: Int64,
    as type: @autoclosure () -> ValueType = .duration(), _ help: @autoclosure () -> String,
    deadline: @autoclosure () -> String = "`remaining_ms` as a time; null if that is."
  ) {
    field("remaining_ms", left, type(), help())
    field("deadline_unix_ms", deadlineUnixMS, .moment.orNull, deadline())
    now(nowUnixMS)
  }
}

/// Collects what the fields of a reply mean.
struct FieldList: FieldWriter {
  private(set) var fields: [Field] = []

  mutating func describe(_ field: @autoclosure () -> Field) { fields.append(field()) }

  func field(_ name: StaticString, _ value: Int64) {}
  func field(_ name: StaticString, _ value: Bool) {}
  func field(_ name: StaticString, _ value: Double) {}
  func field(_ name: StaticString, _ value: String) {}
  func field(_ name: StaticString, _ value: StaticString) {}
  func field(_ name: StaticString, bytes: [UInt8]) {}
  func field(_ name: StaticString, list: [[UInt8]]) {}
  func field(_ name: StaticString, records: [some FieldRecord]) {}
  func field(_ name: StaticString, _ owner: Owner) {}
  func null(_ name: StaticString) {}
}

/// Counts fields, and the most bytes that they take as a reply or in the event log.
///
/// Its methods are inlined into their callers, where little more than a sum is left.
struct FieldSize: FieldWriter {
  private(set) var count = 0
  private(set) var bytes = 0

  /// Bytes for a name of up to 32, for what is around name and value, and for a number's digits.
  private static let overhead = 80

  @inline(__always)
  private mutating func note(_ more: Int = 0) {
    count &+= 1
    bytes += more + Self.overhead
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
    note(list.reduce(0) { $0 + $1.count + Self.overhead })
  }

  mutating func field(_ name: StaticString, records: [some FieldRecord]) {
    note(records.reduce(0) { $0 + $1.size.bytes + Self.overhead })
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
  ///
  /// - Parameter rights: what the reader may do; nil for everything.
  mutating func view(_ view: some EntityView, _ answer: Answer? = nil, for rights: Rights?) {
    var answer = answer
    if isDegraded, answer?.reason == nil { answer?.reason = .degraded }
    var size = FieldSize()
    view.write(to: &size, answer: answer)
    map(size.count)
    let version = version
    // The compiler keeps what it writes to in registers, unless a closure gets it.
    append(atMost: size.bytes) { text in
      var map = MapText(text: text, version: version, rights: rights)
      view.write(to: &map, answer: answer)
      text = map.text
    }
  }

  /// Appends a record as a map.
  ///
  /// - Parameter rights: what the reader may do; nil for everything.
  mutating func record(_ record: some FieldRecord, for rights: Rights?) {
    let (size, version) = (record.size, version)
    map(size.count)
    append(atMost: size.bytes) { text in
      var map = MapText(text: text, version: version, rights: rights)
      record.write(to: &map)
      text = map.text
    }
  }
}

extension Call {
  /// Replies with a view, and notes the decision if somebody keeps it.
  func reply(_ view: some EntityView, _ answer: Answer? = nil) {
    engine.journal?.note(
      answer, view.generation, retryAfterMS: view.retryAfterMS, limit: view.refusingLimit)
    session.output.view(view, answer, for: session.rights)
  }

  func reply(_ view: (some EntityView)?) {
    if let view { reply(view) } else { session.output.null() }
  }

  func reply(_ answer: (isAccepted: Bool, view: some EntityView), refusal: Reason) {
    let reason = answer.isAccepted ? nil : refusal
    reply(answer.view, Answer(isAccepted: answer.isAccepted, reason: reason))
  }
}
