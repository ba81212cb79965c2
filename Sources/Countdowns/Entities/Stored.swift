/// A value that outlives the daemon. It is described once: the same visit of its fields writes and
/// reads it, to a row, to bytes, or to whatever else has a visitor.
package protocol Stored {
  /// A value whose fields reading replaces.
  static var blank: Self { get }

  /// Visits each field once, always in the same order. Another order or another field is another
  /// format, and formats outlive the program.
  mutating func fields<Visitor: StorageVisitor>(_ visitor: inout Visitor)
}

/// Writes the fields of a value, or reads them.
///
/// A visitor that reads replaces what it is given. If it reads something that is never written, it
/// has failed: then the value means nothing. The other fields are still visited, so a
/// description needs no error handling.
package protocol StorageVisitor {
  /// Whether it reads.
  static var isReading: Bool { get }

  /// The store's clock is this many microseconds ahead of the boot clock.
  var offset: Int64 { get }
  var hasFailed: Bool { get }
  /// How much is left to be read, where that is known.
  var bytesLeft: Int { get }

  mutating func fail()

  mutating func field(_ name: StaticString, _ value: inout UInt8)
  mutating func field(_ name: StaticString, _ value: inout UInt32)
  mutating func field(_ name: StaticString, _ value: inout Int64)
  mutating func field(_ name: StaticString, _ value: inout Int64?)
  mutating func field(_ name: StaticString, _ value: inout [UInt8])
  mutating func field(_ name: StaticString, _ value: inout [UInt8]?)
}

// MARK: Numbers

extension StorageVisitor {
  package var bytesLeft: Int { .max }

  package mutating func field(_ name: StaticString, _ value: inout UInt8) {
    narrow(name, &value)
  }

  package mutating func field(_ name: StaticString, _ value: inout UInt32) {
    narrow(name, &value)
  }

  fileprivate mutating func narrow<Number: FixedWidthInteger>(
    _ name: StaticString, _ value: inout Number
  ) {
    var number = Int64(truncatingIfNeeded: value)
    field(name, &number)
    guard Self.isReading else { return }
    if let read = Number(exactly: number) { value = read } else { fail() }
  }

  package mutating func field(_ name: StaticString, _ value: inout Bool) {
    var number: UInt8 = value ? 1 : 0
    field(name, &number)
    if Self.isReading { value = number != 0 }
  }

  /// Has reading fail unless something is so.
  package mutating func require(_ isSo: Bool) {
    if Self.isReading, !isSo { fail() }
  }

  /// One of a few, by its place in a list that only grows.
  package mutating func code<Choice: Equatable>(
    _ name: StaticString, _ value: inout Choice, of choices: [Choice]
  ) {
    var code = UInt8(truncatingIfNeeded: choices.firstIndex(of: value)!)
    field(name, &code)
    guard Self.isReading else { return }
    if Int(code) < choices.count { value = choices[Int(code)] } else { fail() }
  }
}

// MARK: Times

extension StorageVisitor {
  /// An instant of the boot clock; it is stored on the store's clock.
  package mutating func instant(_ name: StaticString, _ value: inout Instant) {
    var stored = value.microseconds &+ offset
    field(name, &stored)
    guard Self.isReading else { return }
    if let read = Instant(stored: stored, offset: offset) { value = read } else { fail() }
  }

  package mutating func instant(_ name: StaticString, _ value: inout Instant?) {
    instant(name, &value, ahead: offset)
  }

  /// - Parameter ahead: how far the clock that it is stored on is ahead of its own.
  package mutating func instant(_ name: StaticString, _ value: inout Instant?, ahead: Int64) {
    var stored: Int64?
    if let value { stored = value.microseconds &+ ahead }
    field(name, &stored)
    guard Self.isReading else { return }
    value = nil
    guard let stored else { return }
    if let read = Instant(stored: stored, offset: ahead) { value = read } else { fail() }
  }

  /// From zero to the longest that anything may last.
  package mutating func interval(_ name: StaticString, _ value: inout Interval) {
    field(name, &value.microseconds)
    require(Interval.possible.contains(value.microseconds))
  }

  package mutating func interval(_ name: StaticString, _ value: inout Interval?) {
    var stored = value?.microseconds
    field(name, &stored)
    guard Self.isReading else { return }
    value = nil
    guard let stored else { return }
    value = Interval(microseconds: stored)
    require(Interval.possible.contains(stored))
  }
}

/// What a damaged file may hold must not make the daemon overflow, at each start again.
extension Instant {
  /// Three thousand years about the epoch: beyond any deadline, and any sum of them.
  package static var possible: ClosedRange<Int64> {
    -100_000_000_000_000_000...100_000_000_000_000_000
  }

  package init?(stored: Int64, offset: Int64) {
    guard Self.possible.contains(stored) else { return nil }
    self.init(microseconds: stored - offset)
  }
}

extension Interval {
  package static var possible: ClosedRange<Int64> { 0...longest.microseconds }
}
