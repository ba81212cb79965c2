import Wire

/// The status of a countdown, HUD, timer, rate limit or other entity at one moment.
///
/// Replies and events carry the same fields. Each property reads one field; `fields` has all of
/// them under their protocol names, including those that a newer daemon has added.
public protocol EntityView: Sendable, Hashable {
  /// The states of this kind of entity. A newer daemon may send states not listed there.
  associatedtype State: RawRepresentable<String>, Sendable, Hashable

  /// The kind of entity.
  static var kind: CountdownEvent.Kind { get }

  /// The fields that the daemon sent.
  var fields: Fields { get }
  /// The name of the entity, with invalid UTF-8 repaired; `keyBytes` has it as it is.
  var key: String { get }
  var state: State { get }
  /// A fencing token, new with each start; it rises across the whole daemon. 0 if there is none.
  var generation: Int { get }

  /// Reads a view from a reply or the fields of an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` if `key` or `state` is missing.
  init(_ reply: RESPValue) throws(CountdownClientError)
}

extension EntityView {
  /// The name of the entity, 1 to 512 bytes.
  public var keyBytes: [UInt8] { fields.bytes("key") ?? [] }

  /// Whether the daemon accepted the request; nil in replies and events that cannot refuse.
  package var accepted: Bool? { fields["accepted"] }
}

extension EntityView {
  /// The views in a field of an answer about several entities; of an answer about one, itself.
  func each(_ name: String) -> [Self] {
    let found = fields.reply[name]?.elements?.compactMap { try? Self($0) } ?? []
    return found.isEmpty ? [self] : found
  }
}

/// A reply with fields that is no view.
protocol ReplyRecord: Sendable {
  init(_ reply: RESPValue)
}

/// The fields of a view. O(fields) to read one.
public struct Fields: Sendable, Hashable {
  /// All fields as the daemon sent them, as a map.
  public let reply: RESPValue

  init(_ reply: RESPValue) { self.reply = reply }

  init(ofView reply: RESPValue) throws(CountdownClientError) {
    guard let _: String = reply.field("key"), let _: String = reply.field("state") else {
      throw .protocolViolation("a view without key or state")
    }
    self.reply = reply
  }

  /// Reads a field; nil if it is null, missing or of another type.
  package subscript<Value: FieldValue>(name: String) -> Value? { reply.field(name) }

  /// Reads a field with a fixed set of values; nil also for an unknown value.
  package subscript<Value: RawRepresentable<String>>(name: String) -> Value? {
    (self[name] as String?).flatMap { Value(rawValue: $0) }
  }

  package func bytes(_ name: String) -> [UInt8]? { reply.member(name)?.bytes }

  func records(_ name: String) -> [Fields] { reply[name]?.elements?.map { Fields($0) } ?? [] }
}

extension RESPValue {
  /// Returns the value of a field. Events name it `NAME_base64` if its bytes are not UTF-8.
  func member(_ name: String) -> RESPValue? {
    if let value = self[name] { return value }
    return self[name + "_base64"]?.string.flatMap { [UInt8](base64: $0) }.map { .bulkString($0) }
  }

  /// Reads a field; nil if it is null, missing or of another type.
  func field<Value: FieldValue>(_ name: String) -> Value? { member(name).flatMap(Value.value(of:)) }
}

/// A type that a field can have.
package protocol FieldValue {
  /// Converts a value; nil if it has another type.
  static func value(of field: RESPValue) -> Self?
}

extension Int: FieldValue {
  package static func value(of field: RESPValue) -> Int? { field.int }
}

extension Bool: FieldValue {
  package static func value(of field: RESPValue) -> Bool? { field.bool }
}

extension Double: FieldValue {
  package static func value(of field: RESPValue) -> Double? { field.number }
}

extension Duration: FieldValue {
  /// Converts a number of milliseconds.
  package static func value(of field: RESPValue) -> Duration? {
    field.int.map { .milliseconds($0) }
  }
}

extension String: FieldValue {
  /// Converts a text; invalid UTF-8 is repaired.
  package static func value(of field: RESPValue) -> String? { field.string }
}

extension Owner: FieldValue {
  package static func value(of field: RESPValue) -> Owner? { field.string.flatMap { Owner($0) } }
}

extension Array: FieldValue where Element: FieldValue {
  package static func value(of field: RESPValue) -> [Element]? {
    field.elements?.compactMap(Element.value(of:))
  }
}
