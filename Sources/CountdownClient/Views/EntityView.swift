import Wire

/// The status of a countdown, HUD, timer, rate limit or other entity at one moment.
///
/// Replies and events carry the same fields. Each property reads one field; `fields` has all of
/// them under their protocol names, including those that a newer daemon has added.
public protocol EntityView: Sendable, Hashable {
  /// The states of this kind of entity.
  associatedtype State: RawRepresentable<String>, Sendable, Hashable

  /// The kind of entity.
  static var kind: CountdownEvent.Kind { get }

  /// The fields that the daemon sent.
  var fields: ViewFields<State> { get }

  /// Creates a view from checked fields.
  init(fields: ViewFields<State>)
}

extension EntityView {
  /// Reads a view from a reply or the fields of an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` if `key` or a known `state` is missing.
  public init(_ reply: RESPValue) throws(CountdownClientError) {
    self.init(fields: try ViewFields(reply))
  }

  /// The name of the entity, 1 to 512 bytes; base64 if it is not UTF-8.
  public var key: String { fields.key }
  public var state: State { fields.state }
  /// A fencing token, new with each start; it rises across the whole daemon. 0 if there is none.
  public var generation: Int { fields["generation"] ?? 0 }
  /// The daemon's clock, in milliseconds since 1970.
  public var nowUnixMS: Int? { fields["now_unix_ms"] }
  /// The current deadline, in milliseconds since 1970; nil without one.
  public var deadlineUnixMS: Int? { fields["deadline_unix_ms"] }
  /// `none`, `connection:ID` or `scope:ID`; nil if the daemon did not send it.
  public var owner: String? { fields["owner"] }
  /// Whether the daemon accepted the request; nil in replies and events that cannot refuse.
  public var accepted: Bool? { fields["accepted"] }
}

/// The fields of a view, including a key and a known state.
public struct ViewFields<State: RawRepresentable<String> & Sendable & Hashable>: Sendable, Hashable
{
  /// All fields as the daemon sent them, as a map.
  public let reply: RESPValue
  let key: String
  let state: State

  init(_ reply: RESPValue) throws(CountdownClientError) {
    guard let key: String = reply.field("key"), let state: String = reply.field("state") else {
      throw .protocolViolation("a view without key or state")
    }
    guard let known = State(rawValue: state) else {
      throw .protocolViolation("a state that this client does not know: \(state)")
    }
    (self.reply, self.key, self.state) = (reply, key, known)
  }

  /// Reads a field; nil if it is null, missing or of another type. O(fields).
  subscript<Value: FieldValue>(name: String) -> Value? { reply.field(name) }

  /// Reads a field with a fixed set of values; nil also for an unknown value.
  subscript<Value: RawRepresentable<String>>(name: String) -> Value? { reply.choice(name) }
}

extension RESPValue {
  /// Returns the value of a field. Events name it `NAME_base64` if its bytes are not UTF-8.
  func field<Value: FieldValue>(_ name: String) -> Value? {
    (self[name] ?? self[name + "_base64"]).flatMap(Value.value(of:))
  }

  /// Reads a field with a fixed set of values; nil also for an unknown value.
  func choice<Value: RawRepresentable<String>>(_ name: String) -> Value? {
    (field(name) as String?).flatMap { Value(rawValue: $0) }
  }
}

/// A type that a field can have.
protocol FieldValue {
  /// Converts a value; nil if it has another type.
  static func value(of field: RESPValue) -> Self?
}

extension Int: FieldValue {
  static func value(of field: RESPValue) -> Int? { field.int }
}

extension Bool: FieldValue {
  static func value(of field: RESPValue) -> Bool? { field.bool }
}

extension Double: FieldValue {
  static func value(of field: RESPValue) -> Double? { field.number }
}

extension Duration: FieldValue {
  /// Converts a number of milliseconds.
  static func value(of field: RESPValue) -> Duration? { field.int.map { .milliseconds($0) } }
}

extension String: FieldValue {
  /// Converts a text, or bytes that are not UTF-8 to base64.
  static func value(of field: RESPValue) -> String? { field.textOrBase64 }
}

extension Array: FieldValue where Element: FieldValue {
  static func value(of field: RESPValue) -> [Element]? {
    field.elements?.compactMap(Element.value(of:))
  }
}
