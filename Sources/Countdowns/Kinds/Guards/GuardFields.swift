import Wire

// The fields of guards, once for replies, events and snapshots alike. docs/protocol.md explains
// them.

/// A view whose fields are its key, its generation, and how it is.
protocol GuardFields {
  /// Fields that `writeState` writes.
  static var stateFieldCount: Int { get }
  var key: [UInt8] { get }
  var generation: Generation { get }
  func writeState(to writer: inout some FieldWriter & ~Copyable)
}

extension ThrottleView: GuardFields {
  static let stateFieldCount = 8

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("limit", limit)
    writer.field("remaining", remaining)
    writer.field("retry_after_ms", retryAfterMS)
    writer.field("reset_after_ms", resetAfterMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("rate_count", rateCount)
    writer.field("rate_ms", rateMS)
  }
}

extension OnceView: GuardFields {
  static let stateFieldCount = 6

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("result", bytes: result)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("owner", owner)
  }
}

extension GateView: GuardFields {
  static let stateFieldCount = 7

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("action", bytes: action)
    writer.field("payload", bytes: payload)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("owner", owner)
  }
}

extension DebounceView: GuardFields {
  static let stateFieldCount = 10

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("calls", calls)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("quiet_ms", quietMS)
    writer.field("max_wait_ms", maximumWaitMS)
    writer.field("leading", isLeading)
    writer.field("owner", owner)
    writer.field("payload", bytes: payload)
  }
}

extension GuardView {
  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    switch self {
    case .throttle(let view): view.writeState(to: &writer)
    case .once(let view): view.writeState(to: &writer)
    case .gate(let view): view.writeState(to: &writer)
    case .debounce(let view): view.writeState(to: &writer)
    }
  }
}

extension RESPEncoder {
  mutating func view<View: GuardFields>(_ view: View, _ answer: Answer? = nil) {
    map(2 + View.stateFieldCount + (answer == nil ? 0 : 2))
    field("key", bytes: view.key)
    field("generation", view.generation.value)
    if let answer {
      field("accepted", answer.isAccepted)
      if let reason = answer.reason {
        field("reason", reason.text)
      } else {
        null("reason")
      }
    }
    view.writeState(to: &self)
  }
}

extension Call {
  func reply<View: GuardFields>(_ view: View?) {
    if let view { session.output.view(view) } else { session.output.null() }
  }

  func reply<View: GuardFields>(
    _ answer: (isAccepted: Bool, view: View), refusal: Event.Reason
  ) {
    let reason = answer.isAccepted ? nil : refusal
    session.output.view(answer.view, Answer(isAccepted: answer.isAccepted, reason: reason))
  }

  /// Bytes that are handed on, no more than a limit allows.
  func payload(_ bytes: UnsafeRawBufferPointer, _ what: String) throws(CommandError) -> [UInt8] {
    let most = dispatcher.engine.settings.limits.payloadLength
    guard bytes.count <= most else {
      throw CommandError(
        "LIMIT max-payload-length is \(most), and \(what) has \(bytes.count) bytes")
    }
    return Array(bytes)
  }

  func lasting(_ interval: Interval, _ what: String) throws(CommandError) -> Interval {
    guard interval >= .milliseconds(1) else { throw problem("\(what) is at least 1ms") }
    return interval
  }
}
