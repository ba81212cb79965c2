/// Events of countdowns and timers that nobody owns, as bytes: about 60 for a start, a fifth of
/// what subscribers get.
///
/// A version byte, then records: their length in 4 bytes, the sequence number, kind and key, and
/// whatever the event says. Integers are LEB128, zigzag where they can be negative. What is written
/// outlives the program: codes are never given another meaning.
enum EventCoding {
  static let headerLength = 1
  private static let version: UInt8 = 1

  // To be read; see `StoredCode`.
  private static let names = Event.Name.byStoredCode()
  private static let reasons = Event.Reason.byStoredCode()
  private static let states = CountdownView.State.byStoredCode()

  static func begin(_ bytes: inout [UInt8]) { bytes.append(version) }

  // MARK: Writing

  static func append(_ event: Event, to bytes: inout [UInt8]) {
    let head = event.head
    switch event.subject {
    case .countdown(let view):
      append(head, view, to: &bytes)
    case .timer(let view):
      let texts = view.payload?.count ?? 0
      append(head, .timer, view.key, texts, now: view.nowUnixMS, to: &bytes) {
        write(view, of: head.name, missed: event.missed, to: &$0)
      }
    case .hud(let view):
      let texts = view.status?.count ?? 0
      append(head, .hud, view.key, texts, now: view.nowUnixMS, to: &bytes) {
        write(view, superseding: event.superseded, to: &$0)
      }
    case .guarded(let view):
      append(head, view.kind, view.key, mostBytes(view), now: view.nowUnixMS, to: &bytes) {
        write(view, to: &$0)
      }
    case .scope, .emission, .nav, .page, .nothing:
      preconditionFailure("what happens to these is not kept")
    }
  }

  /// The same for what happens most, without an event being made of it.
  static func append(_ head: Event.Head, _ view: CountdownView, to bytes: inout [UInt8]) {
    var texts = (view.title?.count ?? 0) + (view.meta?.count ?? 0)
    if let quota = view.quota {
      texts +=
        quota.policy.utf8.count + (quota.channel?.utf8.count ?? 0)
        + (quota.nextChannel?.utf8.count ?? 0)
    }
    append(head, .countdown, view.key, texts, now: view.nowUnixMS, to: &bytes) {
      write(view, of: head.name, to: &$0)
    }
  }

  static func append(
    _ event: TimedEvent, key: UnsafeRawBufferPointer, title: [UInt8]?, to bytes: inout [UInt8]
  ) {
    let head = Event.Head(
      name: event.name, generation: event.generation, sequence: event.sequence,
      dueUnixMS: event.dueUnixMS, lateMicroseconds: event.lateMicroseconds)
    append(head, .countdown, key, title?.count ?? 0, now: event.nowUnixMS, to: &bytes) {
      writeProgress(
        event.state, event.remaining, event.remainingMS,
        deadline: event.deadlineUnixMS &- event.nowUnixMS, title, to: &$0)
    }
  }

  @inline(__always)
  private static func append(
    _ head: Event.Head, _ kind: EntityKind, _ key: [UInt8], _ texts: Int, now: Int64,
    to bytes: inout [UInt8], _ body: (inout Writer) -> Void
  ) {
    key.withUnsafeBytes { append(head, kind, $0, texts, now: now, to: &bytes, body) }
  }

  /// - Parameter texts: how many bytes of text `body` writes, its integers apart.
  @inline(__always)
  private static func append(
    _ head: Event.Head, _ kind: EntityKind, _ key: UnsafeRawBufferPointer, _ texts: Int,
    now: Int64, to bytes: inout [UInt8], _ body: (inout Writer) -> Void
  ) {
    guard let name = head.name.storedCode else {
      preconditionFailure("\(head.name) changes nothing")
    }
    // Each of its integers takes eleven bytes at most.
    let integers = 256
    withUnsafeTemporaryAllocation(byteCount: integers + key.count + texts, alignment: 8) { memory in
      var writer = Writer(memory)
      // The length, which is known at the end.
      writer.skip(4)
      writer.unsigned(head.sequence)
      writer.byte(kind.rawValue)
      writer.text(key)
      writer.byte(name)
      writer.signed(head.generation.value &- head.sequence)
      writer.unsigned(now)
      writer.optional(head.dueUnixMS.map { $0 &- now })
      writer.optional(head.lateMicroseconds)
      // 0 is none.
      writer.byte((head.reason?.storedCode).map { $0 + 1 } ?? 0)
      body(&writer)
      memory.storeBytes(of: UInt32(writer.count - 4).littleEndian, as: UInt32.self)
      bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: memory[..<writer.count]))
    }
  }

  private static func write(
    _ view: CountdownView, of name: Event.Name, to writer: inout Writer
  ) {
    writeProgress(
      view.state, view.remaining, view.remainingMS,
      deadline: view.deadlineUnixMS.map { $0 &- view.nowUnixMS }, view.title, to: &writer)
    guard name.tellsOfSends else { return }
    writer.unsigned(Int64(view.sends))
    writer.unsigned(Int64(view.count))
    writer.unsigned(view.everyMS)
    writer.text(name == .started ? view.meta : nil)
    guard let quota = view.quota else { return writer.byte(0) }
    writer.byte(1)
    writer.text(Array(quota.policy.utf8))
    writer.optional(quota.sendsLeft.map { Int64($0) })
    writer.text(quota.channel.map { Array($0.utf8) })
    writer.text(quota.nextChannel.map { Array($0.utf8) })
    writer.optional(quota.expiresInMS)
    writer.optional(quota.attemptsLeft)
  }

  private static func writeProgress(
    _ state: CountdownView.State, _ remaining: Int64, _ remainingMS: Int64, deadline: Int64?,
    _ title: [UInt8]?, to writer: inout Writer
  ) {
    writer.byte(state.storedCode!)
    writer.unsigned(remaining)
    writer.unsigned(remainingMS)
    writer.optional(deadline)
    writer.text(title)
  }

  private static func write(
    _ view: TimerView, of name: Event.Name, missed: Int64?, to writer: inout Writer
  ) {
    switch view.state {
    case .running: writer.byte(0)
    case .paused: writer.byte(1)
    case .idle: writer.byte(2)
    }
    writer.byte(view.clock == .boot ? 0 : 1)
    writer.unsigned(view.remainingMS)
    writer.optional(view.deadlineUnixMS.map { $0 &- view.nowUnixMS })
    writer.optional(view.everyMS)
    writer.unsigned(view.fired)
    writer.unsigned(view.missed)
    writer.optional(missed)
    writer.text(name == .fired || name == .set ? view.payload : nil)
  }

  private static func write(
    _ view: HUDView, superseding old: Generation?, to writer: inout Writer
  ) {
    for name in [
      view.state.rawValue, view.level.rawValue, view.kind.rawValue, view.mask.rawValue,
      view.end?.rawValue ?? "",
    ] { writer.text(Array(name.utf8)) }
    writer.text(view.status)
    writer.optional(view.fraction.map { Int64(bitPattern: $0.bitPattern) })
    writer.unsigned(view.leases)
    writer.byte((view.isDismissing ? 1 : 0) | (view.isPaused ? 2 : 0) | (view.isDurable ? 4 : 0))
    writer.optional(view.remainingMS)
    writer.optional(view.deadlineUnixMS.map { $0 &- view.nowUnixMS })
    writer.optional(old?.value)
  }

  // MARK: Reading

  /// How many events there are; nil if these bytes never were written here.
  static func count(_ bytes: [UInt8]) -> Int? {
    guard bytes.first ?? version == version else { return nil }
    var count = 0
    let makesSense = forEach(bytes) { _ in
      count += 1
      return true
    }
    return makesSense ? count : nil
  }

  /// What is read of an event before it is known whether anybody wants it.
  struct Record {
    let sequence: Int64
    let kind: EntityKind
    let key: [UInt8]
    fileprivate var rest: Reader

    /// Nil if it never was written here.
    func event() -> Event? {
      var reader = rest
      return EventCoding.event(self, &reader)
    }
  }

  /// False if `body` was, or what is there makes no sense.
  static func forEach(_ bytes: [UInt8], _ body: (Record) -> Bool) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var position = headerLength
      while position < bytes.count {
        guard position + 4 <= bytes.count else { return false }
        let length = Int(
          UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: position, as: UInt32.self)))
        position += 4
        guard position + length <= bytes.count else { return false }
        var reader = Reader(
          bytes: UnsafeRawBufferPointer(rebasing: bytes[position..<position + length]))
        position += length
        let sequence = reader.unsigned()
        let kind = EntityKind(rawValue: reader.byte())
        let key = reader.text() ?? []
        guard let kind, !reader.hasFailed else { return false }
        guard body(Record(sequence: sequence, kind: kind, key: key, rest: reader)) else {
          return false
        }
      }
      return true
    }
  }

  fileprivate static func event(_ record: Record, _ reader: inout Reader) -> Event? {
    let name = Int(reader.byte())
    guard name < names.count else { return nil }
    let generation = Generation(reader.signed() &+ record.sequence)
    let now = reader.unsigned()
    let due = reader.optional().map { $0 &+ now }
    let late = reader.optional()
    let reason = Int(reader.byte())
    guard reason <= reasons.count else { return nil }
    var event = Event(
      name: names[name],
      subject: .nothing(record.kind, key: record.key, nowUnixMS: now),
      generation: generation, sequence: record.sequence, dueUnixMS: due, lateMicroseconds: late,
      reason: reason == 0 ? nil : reasons[reason - 1])
    switch record.kind {
    case .countdown:
      guard let view = countdown(record, event, now, &reader) else { return nil }
      event.subject = .countdown(view)
    case .timer:
      event.subject = .timer(timer(record, &event, now, &reader))
    case .hud:
      guard let view = hud(record, &event, now, &reader) else { return nil }
      event.subject = .hud(view)
    case .throttle, .once, .gate, .debounce:
      guard let view = guardView(record.kind, record.key, generation, now, &reader) else {
        return nil
      }
      event.subject = .guarded(view)
    case .scope, .nav, .page:
      return nil
    }
    return reader.hasFailed ? nil : event
  }

  private static func countdown(
    _ record: Record, _ event: Event, _ now: Int64, _ reader: inout Reader
  ) -> CountdownView? {
    let state = Int(reader.byte())
    guard state < states.count else { return nil }
    var view = CountdownView(
      key: record.key, states[state], event.generation, nowUnixMS: now)
    view.remaining = reader.unsigned()
    view.remainingMS = reader.unsigned()
    view.deadlineUnixMS = reader.optional().map { $0 &+ now }
    view.title = reader.text()
    guard event.name.tellsOfSends else { return view }
    view.sends = UInt32(clamping: reader.unsigned())
    view.count = UInt32(clamping: reader.unsigned())
    view.everyMS = reader.unsigned()
    view.meta = reader.text()
    guard reader.byte() != 0 else { return view }
    view.quota = QuotaView(
      policy: String(decoding: reader.text() ?? [], as: UTF8.self),
      sendsLeft: reader.optional().map { Int($0) },
      channel: reader.text().map { String(decoding: $0, as: UTF8.self) },
      nextChannel: reader.text().map { String(decoding: $0, as: UTF8.self) },
      expiresInMS: reader.optional(), attemptsLeft: reader.optional())
    return view
  }

  private static func hud(
    _ record: Record, _ event: inout Event, _ now: Int64, _ reader: inout Reader
  ) -> HUDView? {
    let names = (0..<5).map { _ in String(decoding: reader.text() ?? [], as: UTF8.self) }
    guard let state = HUDView.State(rawValue: names[0]), let level = Level(rawValue: names[1]),
      let kind = Presentation.Kind(rawValue: names[2]),
      let mask = Presentation.Mask(rawValue: names[3])
    else { return nil }
    event.end = Presentation.End(rawValue: names[4])
    let status = reader.text()
    let fraction = reader.optional().map { Double(bitPattern: UInt64(bitPattern: $0)) }
    let leases = reader.unsigned()
    let flags = reader.byte()
    let remaining = reader.optional()
    let deadline = reader.optional().map { $0 &+ now }
    event.superseded = reader.optional().map { Generation($0) }
    return HUDView(
      key: record.key, state: state, generation: event.generation, level: level, kind: kind,
      status: status, mask: mask, fraction: fraction, leases: leases,
      isDismissing: flags & 1 != 0, isPaused: flags & 2 != 0, remainingMS: remaining,
      deadlineUnixMS: deadline, nowUnixMS: now, end: event.end,
      isDurable: flags & 4 != 0)
  }

  private static func timer(
    _ record: Record, _ event: inout Event, _ now: Int64, _ reader: inout Reader
  ) -> TimerView {
    let state: TimerView.State =
      switch reader.byte() {
      case 0: .running
      case 1: .paused
      default: .idle
      }
    var view = TimerView(key: record.key, state, event.generation, nowUnixMS: now)
    view.clock = reader.byte() == 0 ? .boot : .wall
    view.remainingMS = reader.unsigned()
    view.deadlineUnixMS = reader.optional().map { $0 &+ now }
    view.everyMS = reader.optional()
    view.fired = reader.unsigned()
    view.missed = reader.unsigned()
    event.missed = reader.optional()
    view.payload = reader.text()
    return view
  }
}

extension Event.Name {
  /// Whether subscribers are told how often was sent, and by which rules.
  var tellsOfSends: Bool {
    switch self {
    case .started, .refunded, .expired, .locked, .passed: true
    default: false
    }
  }
}
