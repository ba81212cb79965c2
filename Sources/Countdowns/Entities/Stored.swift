/// A part of a state. It is described once: the same visit of its fields writes or reads it.
package protocol Stored {
  /// The initial value, whose fields reading replaces.
  static var blank: Self { get }

  /// Visits each field once, always in the same order. Another order or another field is another
  /// format; see `EntityState`.
  mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor)
}

/// Writes the fields of a value, or reads them.
///
/// A visitor that reads replaces the fields it is given. If it reads a value that is never written,
/// it has failed, and the result is meaningless. It still visits the other fields, so a description
/// needs no error handling.
package protocol StateVisitor {
  /// Whether the visitor reads; if not, it writes.
  static var isReading: Bool { get }

  /// The store's clock is this many microseconds ahead of the boot clock.
  var offset: Int64 { get }
  /// The version of the record; see `EntityRecord`.
  var format: UInt8 { get }
  var hasFailed: Bool { get }
  /// The number of bytes left to read; `.max` while writing.
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

extension StateVisitor {
  package var bytesLeft: Int { .max }

  package mutating func field(_ name: StaticString, _ value: inout Bool) {
    var number: UInt8 = value ? 1 : 0
    field(name, &number)
    guard Self.isReading else { return }
    require(number <= 1)
    value = number == 1
  }

  /// Makes reading fail unless a condition holds.
  package mutating func require(_ condition: Bool) {
    if Self.isReading, !condition { fail() }
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

extension StateVisitor {
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

  /// Visits a point in time by its clock: only the boot clock is stored on the store's clock.
  mutating func instant(_ name: StaticString, _ value: inout Instant, on clock: TimerClock) {
    var stored: Instant? = value
    switch clock {
    case .boot: instant(name, &value)
    case .wall:
      instant(name, &stored, ahead: 0)
      guard Self.isReading else { return }
      if let stored { value = stored } else { fail() }
    }
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

// MARK: Entities

extension StateVisitor {
  mutating func generation(_ value: inout Generation) { field("generation", &value.value) }

  mutating func owner(_ owner: inout Owner) {
    var code: UInt8
    var connection: UInt64 = 0
    var name = OwnerName.blank
    switch owner {
    case .none: code = 0
    case .connection(let id): (code, connection) = (1, id)
    case .scope(let scope): (code, name) = (2, scope)
    case .page(let page): (code, name) = (3, page)
    }
    field("owner", &code)
    if code == 1 { number("connection", &connection) }
    if code == 2 || code == 3 { ownerName(&name) }
    guard Self.isReading else { return }
    switch code {
    case 0: owner = .none
    case 1: owner = .connection(connection)
    case 2: owner = .scope(name)
    case 3: owner = .page(name)
    default: fail()
    }
  }

  mutating func ownerName(_ name: inout OwnerName) {
    var (key, index, generation) = (name.key, name.index, name.generation)
    field("key", &key)
    field("place", &index)
    self.generation(&generation)
    if Self.isReading { name = OwnerName(key: key, index: index, generation: generation) }
  }

  package mutating func text(_ name: StaticString, _ text: inout String) {
    var bytes = Array(text.utf8)
    field(name, &bytes)
    if Self.isReading { text = String(decoding: bytes, as: UTF8.self) }
  }

  mutating func number(_ name: StaticString, _ value: inout UInt64) {
    var bits = Int64(bitPattern: value)
    field(name, &bits)
    value = UInt64(bitPattern: bits)
  }

  /// Visits an optional value after a flag.
  mutating func optional<Value>(
    _ name: StaticString, _ value: inout Value?, blank: @autoclosure () -> Value,
    _ body: (inout Self, inout Value) -> Void
  ) {
    var isPresent = value != nil
    field(name, &isPresent)
    guard isPresent else {
      value = nil
      return
    }
    var present = value ?? blank()
    body(&self, &present)
    value = present
  }

  /// Visits a number in a range.
  mutating func number(_ name: StaticString, _ value: inout Double, in range: ClosedRange<Double>) {
    var bits = Int64(bitPattern: value.bitPattern)
    field(name, &bits)
    value = Double(bitPattern: UInt64(bitPattern: bits))
    require(range.contains(value))
  }
}

extension OwnerName {
  static let blank = OwnerName(key: [], index: 0, generation: Generation(0))
}

/// Limits for stored values, so that a damaged file cannot cause an overflow at each start.
extension Instant {
  /// The valid times of each stored clock, in microseconds: `end`, and deadlines some 100 times
  /// `Interval.longest` later. Sums of a few do not overflow.
  package static var possible: ClosedRange<Int64> {
    let maximum = end.microseconds + Interval.longest.microseconds * 100
    return -maximum...maximum
  }

  /// The last moment of the year 9999 on the wall clock. No clock passes it.
  package static var end: Instant { Instant(microseconds: 253_402_300_799_999_999) }

  package init?(stored: Int64, offset: Int64) {
    guard Self.possible.contains(stored) else { return nil }
    self.init(microseconds: stored - offset)
  }
}

extension Interval {
  package static var possible: ClosedRange<Int64> { 0...longest.microseconds }
}
