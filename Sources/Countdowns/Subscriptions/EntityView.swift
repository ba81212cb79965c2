/// What is reported of an entity: in replies, events and snapshots. It describes its fields once,
/// for RESP, JSON and the event log alike; docs/reference explains them.
package protocol EntityView: Sendable {
  var kind: EntityKind { get }
  var key: [UInt8] { get }
  var generation: Generation { get }
  var nowUnixMS: Int64 { get }
  /// Whether a store keeps what it is about.
  var isDurable: Bool { get }

  /// All of its fields, as a command returns them.
  ///
  /// - Parameter answer: whether what was asked for was done, where that is part of the reply.
  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?)
  /// What an event of that name reports, after the fields that all events have.
  func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable)
  /// How many bytes the fields of an event take in the event log, at most.
  func mostEventBytes(_ head: Event.Head) -> Int
}

extension EntityView {
  package func mostEventBytes(_ head: Event.Head) -> Int { fieldBytes(head) }

  func fieldBytes(_ head: Event.Head) -> Int {
    var size = FieldSize()
    head.writeRest(of: self, to: &size)
    return size.bytes
  }
}

/// A key that names nothing: in snapshots only.
struct NothingView: EntityView {
  let kind: EntityKind
  let key: [UInt8]
  let nowUnixMS: Int64

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
  /// What an event reports of an entity that is over.
  mutating func over(_ state: StaticString, at nowUnixMS: Int64) {
    field("state", state)
    field("now_unix_ms", nowUnixMS)
  }

  /// How long something has, in milliseconds.
  @inline(__always)
  mutating func time(left: Int64?, until deadlineUnixMS: Int64?, now nowUnixMS: Int64) {
    field("remaining_ms", left)
    field("deadline_unix_ms", deadlineUnixMS)
    field("now_unix_ms", nowUnixMS)
  }
}
