/// The fields of an entity in replies, events and snapshots. One visit describes each field: its
/// value, type and meaning, for RESP, JSON, the event log, the schema and the docs alike.
package protocol EntityView: FieldRecord, Sendable {
  var kind: EntityKind { get }
  var key: [UInt8] { get }
  var generation: Generation { get }
  var nowUnixMS: Int64 { get }
  /// Milliseconds until the request would be accepted; 0 if that is now, or nothing can refuse it.
  var retryAfterMS: Int64 { get }
  /// The key of the limit that would refuse it.
  var refusingLimit: [UInt8]? { get }
  /// Whether the entity is stored.
  var isDurable: Bool { get }

  /// Writes all fields, as a command returns them.
  ///
  /// - Parameter answer: whether the request was accepted; nil if the reply does not report that.
  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?)
  /// Writes the fields of an event of that name, after the fields that all events have.
  func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable)
  /// Returns the most bytes that the fields of an event take in the event log.
  func maximumEventBytes(_ head: Event.Head) -> Int
}

extension EntityView {
  package func write(to writer: inout some FieldWriter & ~Copyable) {
    write(to: &writer, answer: nil)
  }

  /// What its fields in replies mean.
  static var fields: [Field] {
    var list = FieldList()
    blank.write(to: &list, answer: Answer(isAccepted: true))
    return list.fields
  }

  package var retryAfterMS: Int64 { 0 }
  package var refusingLimit: [UInt8]? { nil }

  package func maximumEventBytes(_ head: Event.Head) -> Int { fieldBytes(head) }

  func fieldBytes(_ head: Event.Head) -> Int {
    var size = FieldSize()
    head.writeRest(of: self, to: &size)
    return size.bytes
  }
}

/// The view of a key without an entity: in snapshots only.
struct NothingView: EntityView {
  let kind: EntityKind
  let key: [UInt8]
  let nowUnixMS: Int64

  static var blank: NothingView { preconditionFailure("commands reply null") }
  var generation: Generation { Generation(0) }
  var isDurable: Bool { false }

  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    preconditionFailure("commands reply null")
  }

  func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writer.over(kind.behavior.stateOfNothing, at: nowUnixMS)
  }
}

extension FieldWriter where Self: ~Copyable {
  /// Writes the fields of an event about an entity that has ended.
  mutating func over(_ state: StaticString, at nowUnixMS: Int64) {
    field("state", state)
    field("now_unix_ms", nowUnixMS)
  }
}

/// A view of a kind whose views need only the entity.
protocol ViewOfEntity: EntityView {
  associatedtype Entity: KeyedEntity

  init(_ entity: Entity, at now: Moment)
}
