import Wire

// The fields of each view, once for replies and snapshots alike. docs/protocol.md explains them.

extension CountdownView {
  /// Fields that `write` writes, without an answer.
  var fieldCount: Int { 14 + (quota == nil ? 0 : QuotaView.fieldCount) }

  /// Of its fields in a reply, an answer included.
  var mostBytes: Int {
    // A name and a number, or a word, and what is around them.
    let shortField = 48
    let answers = 2
    var most = (fieldCount + answers) * shortField
    most += key.count + (title?.count ?? 0) + (meta?.count ?? 0) + owner.mostBytes
    if let quota {
      most += quota.policy.utf8.count + (quota.channel?.utf8.count ?? 0)
      most += quota.nextChannel?.utf8.count ?? 0
    }
    return most
  }

  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer? = nil) {
    writer.field("key", bytes: key)
    writeState(to: &writer)
    answer?.write(to: &writer)
    writer.field("retry_after_ms", retryAfterMS)
    writer.field("count", Int64(count))
    writer.field("every_ms", everyMS)
    writeSends(to: &writer)
    writer.field("owner", owner)
    writer.field("meta", bytes: meta)
  }

  func writeSends(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("sends", Int64(sends))
    quota?.write(to: &writer)
  }

  /// What a tick changes.
  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.text)
    writer.field("generation", generation.value)
    writeProgress(to: &writer)
  }

  func writeProgress(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("remaining", remaining)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("title", bytes: title)
  }
}

extension Owner {
  /// Of its text, beyond a word.
  fileprivate var mostBytes: Int {
    switch self {
    case .none, .connection: 32
    case .scope(let name), .page(let name): name.key.count + 32
    }
  }
}

extension QuotaView {
  static let fieldCount = 6

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("sends_left", sendsLeft.map { Int64($0) })
    writer.field("policy", policy)
    writer.field("channel", channel)
    writer.field("next_channel", nextChannel)
    writer.field("expires_in_ms", expiresInMS)
    writer.field("attempts_left", attemptsLeft)
  }
}

/// Whether what was asked for was done, and why not, or why again.
struct Answer {
  var isAccepted: Bool
  var reason: Event.Reason?

  init(_ decision: StartDecision) {
    isAccepted = decision.isAccepted
    reason = decision.reason
  }

  init(_ attempt: SendRecord.Attempt) {
    switch attempt {
    case .accepted: self.init(isAccepted: true)
    case .expired: self.init(isAccepted: false, reason: .expired)
    case .locked: self.init(isAccepted: false, reason: .locked)
    case .passed: self.init(isAccepted: false, reason: .passed)
    }
  }

  init(_ pass: SendRecord.Pass) {
    switch pass {
    case .accepted: self.init(isFirst: true)
    case .acceptedBefore: self.init(isFirst: false)
    case .expired: self.init(isAccepted: false, reason: .expired)
    }
  }

  init(_ refusal: NavigationStack.Refusal?) {
    self.init(isAccepted: refusal == nil, reason: refusal.map { Event.Reason($0) })
  }

  init(_ refusal: PageLoad.Refusal?) {
    self.init(isAccepted: refusal == nil, reason: refusal.map { Event.Reason($0) })
  }

  /// What a repetition may do as well, for it changes nothing.
  init(isFirst: Bool) { self.init(isAccepted: true, reason: isFirst ? nil : .duplicate) }

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("accepted", isAccepted)
    if let reason { writer.field("reason", reason.text) } else { writer.null("reason") }
  }

  init(isAccepted: Bool, reason: Event.Reason? = nil) {
    self.isAccepted = isAccepted
    self.reason = reason
  }
}

extension HUDView {
  static let fieldCount = 17

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    writeState(to: &writer)
  }

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("level", level.rawValue)
    writer.field("kind", kind.rawValue)
    writer.field("status", bytes: status)
    writer.field("mask", mask.rawValue)
    writer.field("fraction", fraction)
    writer.field("leases", leases)
    writer.field("dismissing", isDismissing)
    writer.field("paused", isPaused)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("end", end?.rawValue)
    writer.field("owner", owner)
    writer.field("durable", isDurable)
  }
}

extension TimerView {
  static let fieldCount = 13

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    writeState(to: &writer)
    writer.field("every_ms", everyMS)
    writer.field("clock", clock.rawValue)
    writer.field("late", late.rawValue)
    writer.field("fired", fired)
    writer.field("missed", missed)
    writer.field("owner", owner)
    writer.field("payload", bytes: payload)
  }

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
  }
}

extension CountdownView.State {
  var text: StaticString {
    switch self {
    case .counting: "counting"
    case .paused: "paused"
    case .ready: "ready"
    case .idle: "idle"
    }
  }
}

extension RESPEncoder {
  mutating func view(_ view: CountdownView, _ answer: Answer? = nil) {
    map(view.fieldCount + (answer == nil ? 0 : 2))
    let most = view.mostBytes
    guard most <= 2_048 else { return view.write(to: &self, answer: answer) }
    let version = version
    append(atMost: most) { text in
      var map = MapText(text: text, version: version)
      view.write(to: &map, answer: answer)
      text = map.text
    }
  }

  mutating func view(_ view: HUDView) {
    map(HUDView.fieldCount)
    view.write(to: &self)
  }

  mutating func view(_ view: TimerView) {
    map(TimerView.fieldCount)
    view.write(to: &self)
  }
}
