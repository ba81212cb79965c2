import Wire

/// Something that happened to an entity: a head, and the fields that the entity's view writes.
package enum Event {
  /// The fields that all events have.
  package struct Head: Sendable {
    package var name: Name
    /// The generation that the event happened to: the subject's, unless a successor has taken over.
    package var generation: Generation
    package var sequence: Int64 = 0
    /// The deadline that caused it, in milliseconds since 1970, and how late that was noticed.
    package var dueUnixMS: Int64?
    package var lateMicroseconds: Int64?
    package var reason: Reason?

    init(_ name: Name, _ generation: Generation) {
      self.name = name
      self.generation = generation
    }

    /// - Parameter due: the deadline that caused it, on `clock`; nil if a command did.
    init(
      _ name: Name, _ generation: Generation, due: Instant? = nil, on clock: TimerClock = .boot,
      reason: Reason? = nil, at now: Moment
    ) {
      self.name = name
      self.generation = generation
      self.reason = reason
      guard let due else { return }
      dueUnixMS = now.unixMilliseconds(of: due, on: clock)
      lateMicroseconds = (now.on(clock) - due).microseconds
    }
  }
}

extension Event.Head {
  /// Writes all fields of an event.
  ///
  /// - Parameter key: the key of the entity, whatever key the view has.
  func write(_ subject: some EntityView, key: Span<UInt8>, to line: inout JSONLine) {
    line.begin(name.text.bytes, key: key, generation, sequence)
    writeRest(of: subject, to: &line)
  }

  /// Writes the fields of an event after `seq`.
  func writeRest(of subject: some EntityView, to writer: inout some FieldWriter & ~Copyable) {
    if let dueUnixMS { writer.field("due_unix_ms", dueUnixMS) }
    if let lateMicroseconds { writer.field("late_us", lateMicroseconds) }
    if let reason { writer.field("reason", reason.text) }
    subject.writeEvent(name, to: &writer)
  }
}

extension JSONLine {
  /// Writes the fields that every event begins with.
  mutating func begin(
    _ event: Span<UInt8>, key: Span<UInt8>, _ generation: Generation,
    _ sequence: Int64
  ) {
    field("event", bytes: event)
    field("key", bytes: key)
    field("generation", generation.value)
    field("seq", sequence)
  }
}

/// The raw value of an enumeration whose cases are written as text, without an allocation.
package struct Literal: ExpressibleByStringLiteral, Equatable, Sendable, CustomStringConvertible {
  let text: StaticString

  package var description: String { text.description }

  package init(stringLiteral text: StaticString) { self.text = text }

  package static func == (a: Literal, b: Literal) -> Bool {
    a.text.bytes.hasSameBytes(as: b.text.bytes)
  }
}

extension RawRepresentable<Literal> {
  package var text: StaticString { rawValue.text }
}
