/// The view of a scope.
package struct ScopeView: EntityView, Equatable {
  package enum State: String, Sendable { case open, closed }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// The scope to which events continue; nil if there is none.
  package var parent: [UInt8]?
  /// The depth in the tree: 1 at the top. An owning scope is above the scopes it owns.
  package var depth: Int
  package var children: Int
  /// The number of owned entities, scopes aside.
  package var owned: Int
  package var handlers: Int
  package var ttlMS: Int64?
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner

  package var kind: EntityKind { .scope }
  package var isDurable: Bool { false }

  package static var blank: ScopeView {
    ScopeView(
      key: [], state: .open, generation: Generation(0), depth: 1, children: 0, owned: 0,
      handlers: 0, nowUnixMS: 0, owner: .none)
  }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.field("state", state.rawValue, .choice(["open", "closed"]), "`closed` in events.")
    writer.generation(generation)
    writeDetails(to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    if name == .closed {
      writer.field("parent", other: parent, of: .scope)
      writer.field("now_unix_ms", nowUnixMS)
    } else {
      writeDetails(to: &writer)
    }
  }

  private func writeDetails(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "parent", other: parent, of: .scope, .key,
      "The scope to which events continue; null at the top.")
    writer.field("depth", Int64(depth), .count, "The depth in the tree: 1 at the top.")
    writer.field("children", Int64(children), .count, "The scopes directly below.")
    writer.field("owned", Int64(owned), .count, "How many entities it owns, scopes aside.")
    writer.field("handlers", Int64(handlers), .count, "How many events are handled at it.")
    writer.field("ttl_ms", ttlMS, .duration().orNull, "Its lease; null without one.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, as: .duration().orNull,
      "The time until the lease expires; null without one.")
    writer.owner(owner)
  }
}

/// An event that a client emitted, on its way to the handler.
package struct Emission: EntityView, Equatable {
  /// The scope whose handler takes the event.
  package var key: [UInt8]
  package var generation: Generation
  package var name: [UInt8]
  package var payload: [UInt8]?
  /// The scope to which the event was emitted.
  package var target: [UInt8]
  /// Whether the event was taken on its way down.
  package var isCaptured: Bool
  package var nowUnixMS: Int64

  package var kind: EntityKind { .scope }
  package var isDurable: Bool { false }

  package static var blank: Emission { preconditionFailure("no command returns an emission") }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    preconditionFailure("no command returns an emission")
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writer.field("name", bytes: self.name)
    writer.field("target", other: target, of: .scope)
    writer.field("phase", isCaptured ? "capture" : "bubble" as StaticString)
    writer.field("payload", bytes: payload)
    writer.field("now_unix_ms", nowUnixMS)
  }
}

extension ScopeKind {
  static let events: [EventDescription] = [
    .init(
      .emitted, "This connection takes an event.",
      [
        Field("name", .text(), "The event."),
        Field("target", .key.orNull, "The scope it was sent to.", keyOf: .scope),
        Field("phase", .choice(["capture", "bubble"]), "Whether it was on its way down or up."),
        Field("payload", .bytes().orNull, "Its payload; null without."),
      ]),
    .init(.opened, "OPEN."),
    .init(
      .closed, "`reason` `closed` (CLOSE), `expired` (lease), `owner-gone` or `parent-closed`."),
  ]
}
