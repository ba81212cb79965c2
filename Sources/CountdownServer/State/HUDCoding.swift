import CountdownStore
import Countdowns
import NIOCore

/// What is durable of a screen, as the bytes that a store keeps beside its name. Instants are on the
/// store's clock, `offset` microseconds ahead of the boot clock.
enum HUDCoding {
  private static let version: UInt8 = 1
  /// More than anybody takes; few enough to be summed.
  private static let possibleLeases: ClosedRange<Int64> = 0...1 << 40

  static func encode(_ hud: DurableHUD, offset: Int64) -> [UInt8] {
    var bytes = ByteBuffer()
    bytes.writeInteger(version)
    bytes.writeInteger(UInt32(hud.presentations.count))
    for (level, memory) in hud.presentations {
      bytes.write(choice: level)
      write(memory.request, to: &bytes)
      write(memory, offset, to: &bytes)
    }
    return Array(bytes.readableBytesView)
  }

  /// Nil if these never were written by `encode`.
  static func decode(
    _ bytes: [UInt8], offset: Int64
  ) -> [(level: Level, memory: Presentation.Memory)]? {
    var bytes = ByteBuffer(bytes: bytes)
    guard bytes.readInteger(as: UInt8.self) == version,
      let presentations = bytes.readList({ bytes in readPresentation(&bytes, offset) }),
      bytes.readableBytes == 0, !presentations.isEmpty,
      zip(presentations, presentations.dropFirst()).allSatisfy({ $0.level < $1.level })
    else { return nil }
    return presentations
  }

  private static func readPresentation(
    _ bytes: inout ByteBuffer, _ offset: Int64
  ) -> (level: Level, memory: Presentation.Memory)? {
    guard let level: Level = bytes.readChoice(), let request = readRequest(&bytes),
      let memory = readMemory(of: request, &bytes, offset)
    else { return nil }
    return (level, memory)
  }

  // MARK: What was asked for

  private static func write(_ request: Presentation.Request, to bytes: inout ByteBuffer) {
    bytes.write(choice: request.kind)
    bytes.writeOptionalText(request.status)
    for interval in [
      request.grace, request.minimum, request.fadeIn, request.fadeOut, request.messageMinimum,
    ] { bytes.writeInteger(interval.microseconds) }
    bytes.writeOptional(request.maximum?.microseconds)
    bytes.write(choice: request.minimumFrom)
    bytes.write(choice: request.early)
    bytes.write(choice: request.mask)
  }

  private static func readRequest(_ bytes: inout ByteBuffer) -> Presentation.Request? {
    var request = Presentation.Request()
    func interval() -> Interval? {
      bytes.readInteger(as: Int64.self).flatMap { Interval(stored: $0) }
    }
    guard let kind: Presentation.Kind = bytes.readChoice(), let status = bytes.readOptionalText(),
      let grace = interval(), let minimum = interval(), let fadeIn = interval(),
      let fadeOut = interval(), let messageMinimum = interval(),
      let maximum = bytes.readOptional(),
      let minimumFrom: Presentation.MinimumFrom = bytes.readChoice(),
      let early: Presentation.Early = bytes.readChoice(),
      let mask: Presentation.Mask = bytes.readChoice()
    else { return nil }
    if let maximum {
      guard let maximum = Interval(stored: maximum) else { return nil }
      request.maximum = maximum
    }
    request.kind = kind
    request.status = status
    request.grace = grace
    request.minimum = minimum
    request.fadeIn = fadeIn
    request.fadeOut = fadeOut
    request.messageMinimum = messageMinimum
    request.minimumFrom = minimumFrom
    request.early = early
    request.mask = mask
    request.isDurable = true
    return request
  }

  // MARK: How it stands

  private static func write(
    _ memory: Presentation.Memory, _ offset: Int64, to bytes: inout ByteBuffer
  ) {
    func write(_ instant: Instant) { bytes.writeInteger(instant.microseconds + offset) }
    bytes.writeInteger(memory.generation.value)
    switch memory.phase {
    case .waiting(let until): write(0, until)
    case .appearing(let until): write(1, until)
    case .visible: bytes.writeInteger(2 as UInt8)
    case .disappearing(let until): write(3, until)
    case .hidden: bytes.writeInteger(4 as UInt8)
    }
    switch memory.dismissal {
    case nil: bytes.writeInteger(0 as UInt8)
    case .delayed(let until): write(1, until)
    case .held(let since, let end):
      write(2, since)
      bytes.write(choice: end)
    }
    bytes.writeOptionalText(memory.end.map { Array($0.rawValue.utf8) })
    bytes.writeOptional(memory.fraction.map { Int64(bitPattern: $0.bitPattern) })
    bytes.writeInteger(memory.unownedLeases)
    bytes.writeInteger(memory.ownedLeases)
    write(memory.requestedAt)
    write(memory.visibleSince)
    write(memory.limitedSince)
    bytes.writeOptional(memory.pausedAt.map { $0.microseconds + offset })

    func write(_ tag: UInt8, _ instant: Instant) {
      bytes.writeInteger(tag)
      bytes.writeInteger(instant.microseconds + offset)
    }
  }

  private static func readMemory(
    of request: Presentation.Request, _ bytes: inout ByteBuffer, _ offset: Int64
  ) -> Presentation.Memory? {
    func instant() -> Instant? {
      bytes.readInteger(as: Int64.self).flatMap { Instant(stored: $0, offset: offset) }
    }
    guard let generation = bytes.readInteger(as: Int64.self) else { return nil }
    let phase: Presentation.Phase
    switch bytes.readInteger(as: UInt8.self) {
    case 0:
      guard let until = instant() else { return nil }
      phase = .waiting(until: until)
    case 1:
      guard let until = instant() else { return nil }
      phase = .appearing(until: until)
    case 2: phase = .visible
    case 3:
      guard let until = instant() else { return nil }
      phase = .disappearing(until: until)
    case 4: phase = .hidden
    default: return nil
    }
    let dismissal: Presentation.Dismissal?
    switch bytes.readInteger(as: UInt8.self) {
    case 0: dismissal = nil
    case 1:
      guard let until = instant() else { return nil }
      dismissal = .delayed(until: until)
    case 2:
      guard let since = instant(), let end: Presentation.End = bytes.readChoice() else {
        return nil
      }
      dismissal = .held(since: since, end)
    default: return nil
    }
    guard let end = bytes.readOptionalText(), let fraction = bytes.readOptional(),
      let unowned = bytes.readInteger(as: Int64.self), possibleLeases.contains(unowned),
      let owned = bytes.readInteger(as: Int64.self), possibleLeases.contains(owned),
      let requestedAt = instant(), let visibleSince = instant(), let limitedSince = instant(),
      let pausedAt = bytes.readOptional()
    else { return nil }
    var memory = Presentation.Memory(
      request, generation: Generation(generation), phase: phase, requestedAt: requestedAt,
      visibleSince: visibleSince, limitedSince: limitedSince)
    memory.dismissal = dismissal
    memory.end = end.flatMap { Presentation.End(rawValue: String(decoding: $0, as: UTF8.self)) }
    memory.unownedLeases = unowned
    memory.ownedLeases = owned
    if let fraction {
      let value = Double(bitPattern: UInt64(bitPattern: fraction))
      guard (0...1).contains(value) else { return nil }
      memory.fraction = value
    }
    if let pausedAt {
      guard let pausedAt = Instant(stored: pausedAt, offset: offset) else { return nil }
      memory.pausedAt = pausedAt
    }
    return memory
  }
}

extension HUDRecord {
  init(_ hud: DurableHUD, at index: UInt32, offset: Int64) {
    let front = hud.presentations.last!.memory
    self.init(
      index: index, key: hud.key, generation: front.generation.value, uid: hud.uid,
      deadlineMicroseconds: hud.nextExpiry.map { $0.microseconds + offset },
      status: front.request.status, state: HUDCoding.encode(hud, offset: offset))
  }

  /// Nil if no screen is like this.
  package func durable(offset: Int64) -> DurableHUD? {
    HUDCoding.decode(state, offset: offset).map {
      DurableHUD(key: key, uid: uid, presentations: $0)
    }
  }
}
