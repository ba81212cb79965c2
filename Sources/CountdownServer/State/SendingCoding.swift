import CountdownCore
import CountdownEngine
import NIOCore

/// A policy, and what was sent under it, as the bytes that a store keeps beside the policy's name.
///
/// The policy itself is among them: what was started goes on by the rules it was started with, even
/// if the configuration has others by the next start. Integers are big-endian; instants are on the
/// store's clock, `offset` microseconds ahead of the boot clock.
enum SendingCoding {
  private static let version: UInt8 = 1

  static func encode(_ sending: DurableSending, offset: Int64) -> [UInt8] {
    var bytes = ByteBuffer()
    bytes.writeInteger(version)
    bytes.writeInteger(UInt8(sending.isInForce ? 1 : 0))
    write(sending.record, offset, to: &bytes)
    write(sending.policy.rules, to: &bytes)
    return Array(bytes.readableBytesView)
  }

  /// Nil if these never were written by `encode`.
  static func decode(_ bytes: [UInt8], policy name: [UInt8], offset: Int64) -> DurableSending? {
    var bytes = ByteBuffer(bytes: bytes)
    guard bytes.readInteger(as: UInt8.self) == version,
      let isInForce = bytes.readInteger(as: UInt8.self),
      let record = readRecord(&bytes, offset), let rules = readRules(&bytes),
      bytes.readableBytes == 0,
      let policy = try? SendPolicy(name: String(decoding: name, as: UTF8.self), rules)
    else { return nil }
    return DurableSending(policy: policy, record: record, isInForce: isInForce != 0)
  }

  // MARK: What was sent

  private static func write(_ record: SendRecord, _ offset: Int64, to bytes: inout ByteBuffer) {
    bytes.writeInteger(record.number)
    bytes.writeInteger(UInt8(record.isPassed ? 1 : 0))
    bytes.writeInteger(UInt32(record.sends.count))
    for send in record.sends {
      bytes.writeInteger(send.generation.value)
      bytes.writeInteger(send.at.microseconds + offset)
      write(send.expires.map { $0.microseconds + offset }, to: &bytes)
      bytes.writeInteger(send.attempts)
    }
  }

  private static func readRecord(_ bytes: inout ByteBuffer, _ offset: Int64) -> SendRecord? {
    guard let number = bytes.readInteger(as: UInt32.self),
      let isPassed = bytes.readInteger(as: UInt8.self),
      let sends = readList(&bytes, { bytes in readSend(&bytes, offset) })
    else { return nil }
    return SendRecord(sends: sends, number: number, isPassed: isPassed != 0)
  }

  private static func readSend(_ bytes: inout ByteBuffer, _ offset: Int64) -> SendRecord.Send? {
    guard let generation = bytes.readInteger(as: Int64.self),
      let storedAt = bytes.readInteger(as: Int64.self),
      let at = Instant(stored: storedAt, offset: offset),
      let storedExpires = readOptional(&bytes),
      let attempts = bytes.readInteger(as: UInt32.self)
    else { return nil }
    var expires: Instant?
    if let storedExpires {
      expires = Instant(stored: storedExpires, offset: offset)
      guard expires != nil else { return nil }
    }
    return SendRecord.Send(
      generation: Generation(generation), at: at, expires: expires, attempts: attempts)
  }

  // MARK: Rules

  private static func write(_ rules: SendPolicy.Rules, to bytes: inout ByteBuffer) {
    write(rules.count.map(Int64.init), to: &bytes)
    bytes.writeInteger(rules.every.microseconds)
    bytes.writeInteger(UInt32(rules.ladder.count))
    for cooldown in rules.ladder { bytes.writeInteger(cooldown.microseconds) }
    bytes.writeInteger(UInt32(rules.windows.count))
    for window in rules.windows {
      bytes.writeInteger(Int64(window.limit))
      bytes.writeInteger(window.length.microseconds)
    }
    bytes.writeInteger(UInt32(rules.channels.count))
    for channel in rules.channels { write(Array(channel.utf8), to: &bytes) }
    write(rules.validity?.microseconds, to: &bytes)
    write(rules.attempts.map(Int64.init), to: &bytes)
    write(Array(rules.onResend.rawValue.utf8), to: &bytes)
    write(rules.title, to: &bytes)
    write(rules.readyTitle, to: &bytes)
  }

  private static func readRules(_ bytes: inout ByteBuffer) -> SendPolicy.Rules? {
    var rules = SendPolicy.Rules()
    guard let count = readOptional(&bytes), let every = bytes.readInteger(as: Int64.self),
      let ladder = readList(&bytes, { $0.readInteger(as: Int64.self) }),
      let windows = readList(&bytes, readWindow),
      let channels = readList(&bytes, readText),
      let validity = readOptional(&bytes), let attempts = readOptional(&bytes),
      let onResend = readText(&bytes).flatMap({
        SendPolicy.OnResend(rawValue: String(decoding: $0, as: UTF8.self))
      }),
      let title = readOptionalText(&bytes), let readyTitle = readOptionalText(&bytes)
    else { return nil }
    rules.count = count.map { UInt32(clamping: $0) }
    rules.every = Interval(microseconds: every)
    rules.ladder = ladder.map { Interval(microseconds: $0) }
    rules.windows = windows
    rules.channels = channels.map { String(decoding: $0, as: UTF8.self) }
    rules.validity = validity.map { Interval(microseconds: $0) }
    rules.attempts = attempts.map { UInt32(clamping: $0) }
    rules.onResend = onResend
    rules.title = title
    rules.readyTitle = readyTitle
    return rules
  }

  private static func readWindow(_ bytes: inout ByteBuffer) -> SendPolicy.Window? {
    guard let limit = bytes.readInteger(as: Int64.self),
      let length = bytes.readInteger(as: Int64.self)
    else { return nil }
    return SendPolicy.Window(limit: Int(limit), length: Interval(microseconds: length))
  }

  // MARK: Parts

  private static func readList<Element>(
    _ bytes: inout ByteBuffer, _ read: (inout ByteBuffer) -> Element?
  ) -> [Element]? {
    guard let count = bytes.readInteger(as: UInt32.self), count <= bytes.readableBytes else {
      return nil
    }
    var list: [Element] = []
    list.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let element = read(&bytes) else { return nil }
      list.append(element)
    }
    return list
  }

  private static func write(_ number: Int64?, to bytes: inout ByteBuffer) {
    bytes.writeInteger(UInt8(number == nil ? 0 : 1))
    if let number { bytes.writeInteger(number) }
  }

  /// Nil if there is neither a number nor the word that there is none.
  private static func readOptional(_ bytes: inout ByteBuffer) -> Int64?? {
    switch bytes.readInteger(as: UInt8.self) {
    case 0: .some(nil)
    case 1: bytes.readInteger(as: Int64.self).map { .some($0) }
    default: nil
    }
  }

  private static func write(_ text: [UInt8], to bytes: inout ByteBuffer) {
    bytes.writeInteger(UInt32(text.count))
    bytes.writeBytes(text)
  }

  private static func readText(_ bytes: inout ByteBuffer) -> [UInt8]? {
    bytes.readInteger(as: UInt32.self).flatMap { bytes.readBytes(length: Int($0)) }
  }

  private static func write(_ text: [UInt8]?, to bytes: inout ByteBuffer) {
    bytes.writeInteger(UInt8(text == nil ? 0 : 1))
    if let text { write(text, to: &bytes) as Void }
  }

  private static func readOptionalText(_ bytes: inout ByteBuffer) -> [UInt8]?? {
    switch bytes.readInteger(as: UInt8.self) {
    case 0: .some(nil)
    case 1: readText(&bytes).map { .some($0) }
    default: nil
    }
  }
}
