/// What START stores with a countdown for its readers, without meaning to the daemon.
package struct Annotations: Equatable, Sendable {
  package var meta: [UInt8]?

  package init() {}

  /// In replies, and in the events that report all of a countdown.
  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("meta", bytes: meta)
  }

  /// In the middle of a stored countdown: one that is added is stored at the end, by
  /// `DurableCountdown.fields`.
  mutating func fields(_ row: inout some StorageVisitor) {
    row.field("meta", &meta)
  }
}
