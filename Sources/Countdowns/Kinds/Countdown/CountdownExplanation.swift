import Wire

/// Why a countdown is as it is, and why START and ATTEMPT are refused: the reply to
/// `COUNTDOWN WHY`.
package struct CountdownExplanation: FieldRecord, Equatable, Sendable {
  /// The status of the newest code.
  package enum Code: String, CaseIterable, Sendable {
    case valid, locked, passed, expired
  }

  package var key: [UInt8]
  package var state = CountdownView.State.idle
  package var owner = Owner.none
  /// The state, and why START is refused, in one sentence.
  package var why = "idle: there is no countdown; START is accepted"
  package var reason: Reason?
  package var retryAfterMS: Int64 = 0
  /// How full each window and each named limit is, and how many channels are used.
  package var limits: [String] = []
  /// The status of the newest code; nil if codes are not tracked.
  package var code: Code?
  package var codeWhy: String?

  /// Explains a key without a countdown.
  init(key: [UInt8]) { self.key = key }

  /// - Parameters:
  ///   - refusal: why START is refused; nil if it is accepted.
  ///   - named: the named limits, in words.
  ///   - rights: what the reader may do; nil for everything.
  init(
    _ view: CountdownView, _ machine: Countdown, _ sending: Sending?, refusal: Refusal?,
    named: [String], for rights: Rights?, at now: Instant
  ) {
    key = view.key
    state = view.state
    owner = view.owner
    retryAfterMS = view.retryAfterMS
    if let sending, let validity = sending.policy.rules.validity {
      let code = Self.code(sending.record, by: sending.policy, at: now)
      self.code = code
      codeWhy = Self.text(code, sending, validity, isRefunded: machine.isRefunded, at: now)
    }

    let isForgotten = sending?.record.isForgotten == true
    // A policy that the last START did not name does not apply.
    let sending = sending?.isInForce == true ? sending : nil
    if let sending { limits = Self.limits(sending.record, by: sending.policy, at: now) + named }
    var refusal = refusal
    if let limit = refusal?.limit, !rights.mayRead(.throttle, limit.span) { refusal?.limit = nil }
    reason = refusal?.reason
    why =
      refusal.map { Self.text($0, machine, sending, at: now) } ?? acceptance(machine, isForgotten)
  }

  // MARK: START

  private func acceptance(_ machine: Countdown, _ isForgotten: Bool) -> String {
    switch state {
    case .idle where isForgotten: "idle: only limits count what was sent; START is accepted"
    case .idle: "idle: it was cancelled; START is accepted"
    case .counting: "counting: its limits have room again; START is accepted"
    case _ where machine.isRefunded: "ready: the last send was refunded; START is accepted"
    default: "ready: START is accepted"
    }
  }

  private static func text(
    _ refusal: Refusal, _ machine: Countdown, _ sending: Sending?, at now: Instant
  ) -> String {
    let left = (refusal.until - now).humanText
    var paused = ""
    if case .paused(let left) = machine.phase { paused = "paused with \(left.humanText) left" }
    switch refusal.reason {
    case .cooldown where !paused.isEmpty:
      return "refused: \(paused); RESUME or CANCEL it"
    case .cooldown:
      let number = sending.map { " after send \($0.record.sendCount(by: $0.policy, at: now))" }
      let whole = machine.plan.duration
      let of = refusal.until - now <= whole ? " of \(whole.humanText)" : ""
      return "refused: in cooldown\(number ?? ""); \(left)\(of) left"
    case .limit, .blocked:
      let limit = refusal.limit.map { "the limit \(quoted($0.span))" } ?? "a limit"
      let what = refusal.reason == .blocked ? "blocked, as too few codes were entered" : "full"
      return "refused: \(limit) is \(what); \(left) left"
        + (paused.isEmpty ? "" : "; also \(paused)")
    case .locked:
      return "refused: locked, as a code was tried too often; \(left) left"
        + (paused.isEmpty ? "" : "; also \(paused)")
    default:
      let sending = sending!
      let limit =
        switch refusal.reason {
        case .exhausted: channels(sending.record, by: sending.policy, at: now)
        case .guesses: guesses(sending.record, by: sending.policy, at: now) ?? ""
        default: fullWindow(sending.record, by: sending.policy, until: refusal.until, at: now)
        }
      return "refused: \(limit)" + (paused.isEmpty ? "" : "; also \(paused)")
    }
  }

  // MARK: Limits

  private static func limits(
    _ record: SendRecord, by policy: SendPolicy, at now: Instant
  ) -> [String] {
    let windows = policy.rules.windows.map { window($0, record, at: now) }
    let channels = policy.rules.channels.isEmpty ? nil : channels(record, by: policy, at: now)
    let refunds = record.refundFilling(by: policy, at: now).map { text($0, "refunds", at: now) }
    return windows
      + [channels, guesses(record, by: policy, at: now), refunds].compactMap(\.self)
  }

  private static func window(
    _ window: SendPolicy.Window, _ record: SendRecord, at now: Instant
  ) -> String {
    text(BoundFilling(window, record.sends.lazy.map { $0.at }, at: now), at: now)
  }

  private static func guesses(
    _ record: SendRecord, by policy: SendPolicy, at now: Instant
  ) -> String? {
    record.guessFilling(by: policy, at: now).map { text($0, "guesses", at: now) }
  }

  private static func text(
    _ filling: BoundFilling, _ noun: String? = nil, at now: Instant
  ) -> String {
    let limit = filling.window.limit
    let what = noun.map { "\(limit) \($0)" } ?? "\(limit)"
    let count = "\(filling.inside) of \(what) in \(filling.window.length.humanText)"
    guard let changes = filling.changes else { return count }
    let left = (changes - now).humanText
    return count + (filling.inside > limit ? "; room again in " : "; the oldest leaves in ") + left
  }

  /// Describes the window that is full until then.
  private static func fullWindow(
    _ record: SendRecord, by policy: SendPolicy, until: Instant, at now: Instant
  ) -> String {
    let full = policy.rules.windows.first { window in
      let (inside, changes) = record.filling(window, at: now)
      return inside >= window.limit && changes == until
    }
    return window(full!, record, at: now)
  }

  private static func channels(
    _ record: SendRecord, by policy: SendPolicy, at now: Instant
  ) -> String {
    let channels = policy.rules.channels
    let used = min(Int(record.sendCount(by: policy, at: now)), channels.count)
    let text = "\(used) of \(channels.count) channels used"
    guard used == channels.count, let last = record.sends.last else {
      return "\(text); \(channels[used]) is next"
    }
    return "\(text); they start over in \((last.at + policy.longest - now).humanText)"
  }

  // MARK: Codes

  private static func code(
    _ record: SendRecord, by policy: SendPolicy, at now: Instant
  ) -> Code {
    // On a copy, as this must not count as an attempt. Guesses are the key's, not the code's.
    var record = record
    record.guesses = []
    return switch record.attempt(nil, by: policy, at: now) {
    case .accepted: .valid
    case .locked: .locked
    case .passed: .passed
    case .expired, .refused: .expired
    }
  }

  private static func text(
    _ code: Code, _ sending: Sending, _ validity: Interval, isRefunded: Bool, at now: Instant
  ) -> String {
    let maximum = sending.policy.rules.attempts
    switch code {
    case .valid where sending.record.guessBlock(by: sending.policy, at: now) != nil:
      return "refused: " + (guesses(sending.record, by: sending.policy, at: now) ?? "")
    case .valid:
      let send = sending.record.code(nil, at: now)!
      let left = maximum.map { "; \($0 - send.attempts) of \($0) attempts left" } ?? ""
      return "valid for \((send.expires! - now).humanText)\(left)"
    case .locked: return "refused: \(maximum!) of \(maximum!) attempts made"
    case .passed: return "refused: PASS has used the code"
    case .expired where isRefunded: return "refused: the send was refunded"
    case .expired: return "refused: the validity of \(validity.humanText) is over"
    }
  }

  // MARK: The reply

  package static var blank: CountdownExplanation { CountdownExplanation(key: []) }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.key(key)
    writer.field("state", state.rawValue, .choice(CountdownView.State.self), "The state.")
    writer.field(
      "why", why, .text(), "One sentence: the state, and whether START would be accepted.")
    writer.field(
      "reason", reason?.rawValue, .choice(Reason.self).orNull, "What START would reply.")
    writer.field("retry_after_ms", retryAfterMS, .duration(), "What START would reply.")
    writer.field(
      "limits", list: limits,
      "How full each window of the policy in force and each named limit is, and how many of its "
        + "channels are used.")
    writer.choice("code", code, "The state of the code; null where codes are not tracked.")
    writer.field("code_why", codeWhy, .text().orNull, "Why ATTEMPT would be refused.")
    writer.owner(owner)
  }
}

extension Engine {
  /// - Parameter rights: what the reader may do; nil for everything.
  func explainCountdown(
    _ key: Span<UInt8>, for rights: Rights?, at now: Moment
  ) -> CountdownExplanation {
    guard let index = currentCountdown(key, at: now) else {
      return CountdownExplanation(key: Array(key))
    }
    return CountdownExplanation(
      countdownView(index, at: now), countdowns.machine(index), countdowns.sending(index),
      refusal: nextRefusal(of: index, at: now),
      named: limitTexts(of: index, key, for: rights, at: now), for: rights, at: now.boot)
  }

  /// Describes how full those named limits of a countdown are that the reader may read.
  private func limitTexts(
    of index: UInt32, _ key: Span<UInt8>, for rights: Rights?, at now: Moment
  ) -> [String] {
    let limits = policyInForce(index)?.limits ?? []
    let readable = limits.filter { rights.mayRead(.throttle, $0.span) }
    return charges(readable, at: now).flatMap { charge in
      let machine =
        charge.index.map { throttles[$0].machine } ?? Throttle(charge.rules, at: now.boot)
      return ThrottleExplanation.limits(machine, by: charge.rules, at: now.boot).map {
        "\(quoted(charge.key.span)): \($0)"
      }
    } + (policyInForce(index).flatMap { shadowText(key, $0.policy, at: now) }.map { [$0] } ?? [])
  }
}
