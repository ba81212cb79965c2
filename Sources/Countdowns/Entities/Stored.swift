/// A value that outlives the daemon. It is described once: the same visit of its fields writes or
/// reads it, as a row, as bytes, or in any form that has a visitor.
package protocol Stored {
  /// The initial value, whose fields reading replaces.
  static var blank: Self { get }

  /// Visits each field once, always in the same order. Another order or another field is another
  /// format, and formats outlive the program.
  mutating func fields<Visitor: StorageVisitor>(_ visitor: inout Visitor)
}

/// Writes the fields of a value, or reads them.
///
/// A visitor that reads replaces the fields it is given. If it reads a value that is never written,
/// it has failed, and the result is meaningless. It still visits the other fields, so a description
/// needs no error handling.
package protocol StorageVisitor {
  /// Whether the visitor reads; if not, it writes.
  static var isReading: Bool { get }

  /// The store's clock is this many microseconds ahead of the boot clock.
  var offset: Int64 { get }
  var hasFailed: Bool { get }
  /// The number of bytes left to read; `.max` if unknown.
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

  /// Makes reading fail unless a condition holds.
  package mutating func require(_ isSo: Bool) {
    if Self.isReading, !isSo { fail() }
  }

  /// Visits one of a few choices, by its index in a list that only grows.
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
  /// Visits an instant of the boot clock, which is stored on the store's clock.
  package mutating func instant(_ name: StaticString, _ value: inout Instant) {
    var stored = value.microseconds &+ offset
    field(name, &stored)
    guard Self.isReading else { return }
    if let read = Instant(stored: stored, offset: offset) { value = read } else { fail() }
  }

  package mutating func instant(_ name: StaticString, _ value: inout Instant?) {
    instant(name, &value, ahead: offset)
  }

  /// - Parameter ahead: the stored clock is this many microseconds ahead of the instant's clock.
  package mutating func instant(_ name: StaticString, _ value: inout Instant?, ahead: Int64) {
    var stored: Int64?
    if let value { stored = value.microseconds &+ ahead }
    field(name, &stored)
    guard Self.isReading else { return }
    value = nil
    guard let stored else { return }
    if let read = Instant(stored: stored, offset: ahead) { value = read } else { fail() }
  }

  /// Visits an interval from zero to `Interval.longest`.
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

/// Limits for stored values, so that a damaged file cannot cause an overflow at each start.
extension Instant {
  /// ±3,000 years around the epoch, in microseconds: beyond any deadline and any sum of deadlines.
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
