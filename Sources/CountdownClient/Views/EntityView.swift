import Wire

/// The status of a countdown, HUD, timer, rate limit or other entity at one moment.
///
/// Replies and events carry the same fields. Each property reads one of them; `fields` has all of
/// them under the names of the protocol, also those that a newer daemon has added.
public protocol EntityView: Sendable, Hashable {
  /// The states of this kind of entity.
  associatedtype State: RawRepresentable<String>, Sendable, Hashable

  /// The kind of entity.
  static var kind: CountdownEvent.Kind { get }

  /// The fields that the daemon sent.
  var fields: ViewFields<State> { get }

  /// Creates a view from fields that were checked.
  init(fields: ViewFields<State>)
}

extension EntityView {
  /// Reads a view from a reply or the fields of an event.
  ///
  /// - Throws: `CountdownClientError.protocolViolation` without `key` and a known `state`.
  public init(_ reply: RESPValue) throws(CountdownClientError) {
    self.init(fields: try ViewFields(reply))
  }

  /// The name of the entity, 1 to 512 bytes; base64 if it is not UTF-8.
  public var key: String { fields.key }
  public var state: State { fields.state }
  /// A fencing token, new with each start; it rises across the whole daemon. 0 while there is none.
  public var generation: Int { fields["generation"] ?? 0 }
  /// The daemon's clock, in milliseconds since 1970.
  public var nowUnixMS: Int? { fields["now_unix_ms"] }
  /// The end of the time that runs, in milliseconds since 1970; nil where none runs.
  public var deadlineUnixMS: Int? { fields["deadline_unix_ms"] }
  /// `none`, `connection:ID` or `scope:ID`; nil where the daemon did not send it.
  public var owner: String? { fields["owner"] }
  /// Whether the daemon did what was requested; nil in replies and events that refuse nothing.
  public var accepted: Bool? { fields["accepted"] }
}

/// The fields of a view, with a name and a known state.
public struct ViewFields<State: RawRepresentable<String> & Sendable & Hashable>: Sendable, Hashable
{
  /// All fields as the daemon sent them, a map.
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

  /// The value of a field; nil where it is null, missing or of another type. O(fields).
  subscript<Value: FieldValue>(name: String) -> Value? { reply.field(name) }

  /// A field with one of a few values; nil also for a value that this client does not know.
  subscript<Value: RawRepresentable<String>>(name: String) -> Value? { reply.choice(name) }
}

extension RESPValue {
  /// The value of a field. Events name a field `payload_base64` where its bytes are not UTF-8.
  func field<Value: FieldValue>(_ name: String) -> Value? {
    (self[name] ?? self[name + "_base64"]).flatMap(Value.value(of:))
  }

  /// A field with one of a few values; nil also for a value that this client does not know.
  func choice<Value: RawRepresentable<String>>(_ name: String) -> Value? {
    (field(name) as String?).flatMap { Value(rawValue: $0) }
  }
}

/// A type that a field can have.
protocol FieldValue {
  /// Nil for a value of another type.
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
  /// Fields are in milliseconds.
  static func value(of field: RESPValue) -> Duration? { field.int.map { .milliseconds($0) } }
}

extension String: FieldValue {
  /// A text, or the base64 of bytes that are not UTF-8.
  static func value(of field: RESPValue) -> String? { field.textOrBase64 }
}

extension Array: FieldValue where Element: FieldValue {
  static func value(of field: RESPValue) -> [Element]? {
    field.elements?.compactMap(Element.value(of:))
  }
}
