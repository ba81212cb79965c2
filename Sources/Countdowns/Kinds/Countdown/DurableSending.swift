/// A policy and the sends under it. A class, so that countdowns without a policy, as most are, are
/// faster to copy.
package final class DurableSending: Equatable, Sendable {
  package let policy: SendPolicy
  package let record: SendRecord
  package let isInForce: Bool

  package init(policy: SendPolicy, record: SendRecord, isInForce: Bool) {
    self.policy = policy
    self.record = record
    self.isInForce = isInForce
  }

  package static func == (a: DurableSending, b: DurableSending) -> Bool {
    a.policy == b.policy && a.record == b.record && a.isInForce == b.isInForce
  }

  package var policyName: [UInt8] { Array(policy.name.utf8) }

  package func bytes(offset: Int64) -> [UInt8] {
    StoredSending(isInForce: isInForce, record: record, rules: policy.rules).bytes(offset: offset)
  }

  /// Returns nil for invalid bytes.
  package convenience init?(policyName name: [UInt8], bytes: [UInt8], offset: Int64) {
    guard let read = StoredSending(bytes: bytes, offset: offset),
      let policy = try? SendPolicy(name: String(decoding: name, as: UTF8.self), read.rules)
    else { return nil }
    self.init(policy: policy, record: read.record, isInForce: read.isInForce)
  }
}

/// The stored data of a policy and its sends, except the policy's name.
///
/// It includes the rules, which a started key keeps even if the configuration has changed by the
/// time the daemon starts again.
private struct StoredSending: Stored {
  var isInForce = false
  var record = SendRecord()
  var rules = SendPolicy.Rules()

  static var blank: StoredSending { StoredSending() }

  mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.version(1)
    bytes.field("in_force", &isInForce)
    record.fields(&bytes)
    rules.fields(&bytes)
  }
}

extension SendRecord: Stored {
  package static var blank: SendRecord { SendRecord() }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.field("number", &number)
    // The next send must not overflow the number.
    bytes.require(number <= Int32.max)
    bytes.field("passed", &isPassed)
    bytes.list("sends", &sends)
  }
}

extension SendRecord.Send: Stored {
  package static var blank: SendRecord.Send {
    SendRecord.Send(generation: Generation(0), at: .zero, expires: nil)
  }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.field("generation", &generation.value)
    bytes.instant("at", &at)
    bytes.instant("expires", &expires)
    bytes.field("attempts", &attempts)
  }
}

/// `SendPolicy` validates the rules that are read.
extension SendPolicy.Rules: Stored {
  package static var blank: SendPolicy.Rules { SendPolicy.Rules() }

  package mutating func fields<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.clamped("count", &count)
    bytes.field("every", &every.microseconds)
    bytes.list("ladder", &ladder, blank: .zero) { $0.field("cooldown", &$1.microseconds) }
    bytes.list("windows", &windows, blank: SendPolicy.Window(limit: 0, length: .zero)) {
      var limit = Int64($1.limit)
      $0.field("limit", &limit)
      $1.limit = Int(limit)
      $0.field("length", &$1.length.microseconds)
    }
    bytes.list("channels", &channels, blank: "") {
      var channel = Array($1.utf8)
      $0.field("channel", &channel)
      if Bytes.isReading { $1 = String(decoding: channel, as: UTF8.self) }
    }
    var validity = validity?.microseconds
    bytes.field("validity", &validity)
    if Bytes.isReading { self.validity = validity.map { Interval(microseconds: $0) } }
    bytes.clamped("attempts", &attempts)
    bytes.choice("on_resend", &onResend)
    bytes.field("title", &title)
    bytes.field("ready_title", &readyTitle)
  }
}

extension StorageVisitor {
  fileprivate mutating func clamped(_ name: StaticString, _ value: inout UInt32?) {
    var number = value.map(Int64.init)
    field(name, &number)
    if Self.isReading { value = number.map { UInt32(clamping: $0) } }
  }
}
