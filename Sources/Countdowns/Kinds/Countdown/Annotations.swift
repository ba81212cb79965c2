/// Data that START stores with a countdown for its readers. It has no meaning to the daemon.
package struct Annotations: Equatable, Sendable {
  package var meta: [UInt8]?

  package init() {}

  /// Writes the fields, in replies and in events that report a whole countdown.
  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("meta", bytes: meta, .bytes().orNull, "META; null without.")
  }
}
