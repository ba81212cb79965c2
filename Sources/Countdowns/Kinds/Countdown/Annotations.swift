/// What START stores with a countdown for its readers, without a meaning for the daemon. What is added
/// here is in views, in events and in the store.
package struct Annotations: Equatable, Sendable {
  package var meta: [UInt8]?

  package init() {}

  /// In replies, and in the events that report all of a countdown.
  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("meta", bytes: meta)
  }

  mutating func fields(_ row: inout some StorageVisitor) {
    row.field("meta", &meta)
  }
}
