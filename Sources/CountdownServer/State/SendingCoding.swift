import Countdowns
import NIOCore

/// Tokens of accepted starts, as the bytes that a store keeps. Integers are big-endian.
enum TokenCoding {
  static func encode(_ tokens: ArraySlice<SentToken>) -> [UInt8] {
    var bytes = ByteBuffer()
    for sent in tokens {
      bytes.writeInteger(sent.generation.value)
      bytes.writeText(sent.token)
    }
    return Array(bytes.readableBytesView)
  }

  /// Nil if these never were written by `encode`.
  static func decode(_ bytes: [UInt8]) -> [SentToken]? {
    var bytes = ByteBuffer(bytes: bytes)
    var tokens: [SentToken] = []
    while bytes.readableBytes > 0 {
      guard let generation = bytes.readInteger(as: Int64.self), let token = bytes.readText() else {
        return nil
      }
      tokens.append(SentToken(token, Generation(generation)))
    }
    return tokens
  }
}

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
      bytes.writeOptional(send.expires.map { $0.microseconds + offset })
      bytes.writeInteger(send.attempts)
    }
  }

  private static func readRecord(_ bytes: inout ByteBuffer, _ offset: Int64) -> SendRecord? {
    guard let number = bytes.readInteger(as: UInt32.self), number <= Int32.max,
      let isPassed = bytes.readInteger(as: UInt8.self),
      let sends = bytes.readList({ bytes in readSend(&bytes, offset) })
    else { return nil }
    return SendRecord(sends: sends, number: number, isPassed: isPassed != 0)
  }

  private static func readSend(_ bytes: inout ByteBuffer, _ offset: Int64) -> SendRecord.Send? {
    guard let generation = bytes.readInteger(as: Int64.self),
      let storedAt = bytes.readInteger(as: Int64.self),
      let at = Instant(stored: storedAt, offset: offset),
      let storedExpires = bytes.readOptional(),
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
    bytes.writeOptional(rules.count.map(Int64.init))
    bytes.writeInteger(rules.every.microseconds)
    bytes.writeInteger(UInt32(rules.ladder.count))
    for cooldown in rules.ladder { bytes.writeInteger(cooldown.microseconds) }
    bytes.writeInteger(UInt32(rules.windows.count))
    for window in rules.windows {
      bytes.writeInteger(Int64(window.limit))
      bytes.writeInteger(window.length.microseconds)
    }
    bytes.writeInteger(UInt32(rules.channels.count))
    for channel in rules.channels { bytes.writeText(Array(channel.utf8)) }
    bytes.writeOptional(rules.validity?.microseconds)
    bytes.writeOptional(rules.attempts.map(Int64.init))
    bytes.writeText(Array(rules.onResend.rawValue.utf8))
    bytes.writeOptionalText(rules.title)
    bytes.writeOptionalText(rules.readyTitle)
  }

  private static func readRules(_ bytes: inout ByteBuffer) -> SendPolicy.Rules? {
    var rules = SendPolicy.Rules()
    guard let count = bytes.readOptional(), let every = bytes.readInteger(as: Int64.self),
      let ladder = bytes.readList({ $0.readInteger(as: Int64.self) }),
      let windows = bytes.readList(readWindow),
      let channels = bytes.readList({ $0.readText() }),
      let validity = bytes.readOptional(), let attempts = bytes.readOptional(),
      let onResend = bytes.readText().flatMap({
        SendPolicy.OnResend(rawValue: String(decoding: $0, as: UTF8.self))
      }),
      let title = bytes.readOptionalText(), let readyTitle = bytes.readOptionalText()
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
}
