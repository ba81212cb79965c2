/// The view of a countdown.
package struct CountdownView: EntityView, Equatable {
  package enum State: Literal, CaseIterable, Sendable { case counting, paused, ready, idle }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  package var remaining: Int64
  package var remainingMS: Int64
  package var retryAfterMS: Int64
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var count: UInt32
  package var everyMS: Int64
  package var sends: UInt32
  private var rest = OptionalDetails<Details>()

  private struct Details: Equatable, Sendable {
    var title: [UInt8]?
    var owner = Owner.none
    var annotations = Annotations()
    var quota: QuotaView?
    var codes: [CodeView]?
    var forgivenBy: UInt32?
  }

  private var others: Details {
    get { rest.value ?? Details() }
    set { rest.value = newValue == Details() ? nil : newValue }
  }

  package var kind: EntityKind { .countdown }
  package var isDurable: Bool { owner == .none }
  package var refusingLimit: [UInt8]? { quota?.limit }

  package var title: [UInt8]? {
    get { rest.isNone ? nil : rest.read { $0.title } ?? nil }
    set { if newValue != nil || !rest.isNone { others.title = newValue } }
  }
  package internal(set) var owner: Owner {
    get { rest.isNone ? .none : rest.read { $0.owner } ?? .none }
    set { if newValue != .none || !rest.isNone { others.owner = newValue } }
  }
  package internal(set) var annotations: Annotations {
    get { rest.isNone ? Annotations() : rest.read { $0.annotations } ?? Annotations() }
    set { if newValue != Annotations() || !rest.isNone { others.annotations = newValue } }
  }
  /// The status under the policy; nil for a countdown that was started without one.
  package internal(set) var quota: QuotaView? {
    get { rest.isNone ? nil : rest.read { $0.quota } ?? nil }
    set { if newValue != nil || !rest.isNone { others.quota = newValue } }
  }

  /// The codes that may be checked, in a reply to ATTEMPT ANY.
  package internal(set) var codes: [CodeView]? {
    get { rest.isNone ? nil : rest.read { $0.codes } ?? nil }
    set { if newValue != nil { others.codes = newValue } }
  }

  /// The user who has forgiven the key, in an event that reports that.
  package internal(set) var forgivenBy: UInt32? {
    get { rest.isNone ? nil : rest.read { $0.forgivenBy } ?? nil }
    set { if newValue != nil { others.forgivenBy = newValue } }
  }

  /// Creates a view whose other fields are zero or nil, for the caller to fill in.
  init(key: [UInt8], _ state: State, _ generation: Generation, nowUnixMS: Int64) {
    self.key = key
    self.state = state
    self.generation = generation
    self.nowUnixMS = nowUnixMS
    remaining = 0
    remainingMS = 0
    retryAfterMS = 0
    count = 0
    everyMS = 0
    sends = 0
  }

  /// - Parameters:
  ///   - code: the generation of the code to report, if not the newest.
  ///   - retryAt: when a start is accepted next, if the caller knows it already.
  init(
    _ machine: Countdown, _ generation: Generation, key: [UInt8], titles: Titles?,
    _ extras: CountdownExtras?, code: Generation? = nil, retryAt: Instant? = nil, at now: Moment
  ) {
    self.key = key
    self.generation = generation
    remaining = machine.remainingSteps(at: now.boot)
    let left = machine.remainingTime(at: now.boot)
    remainingMS = left.millisecondsRoundedUp
    switch machine.phase {
    case .counting(let deadline) where deadline > now.boot:
      state = .counting
      deadlineUnixMS = now.unixMilliseconds(of: deadline)
    case .paused:
      state = .paused
    // With no time left it is ready, although the `ready` event is still to come.
    case .counting(let since), .ready(let since):
      state = .ready
      deadlineUnixMS = now.unixMilliseconds(of: since)
    case .idle:
      state = .idle
    }
    nowUnixMS = now.unixMilliseconds
    count = machine.plan.count
    everyMS = machine.plan.every.millisecondsRoundedUp
    retryAfterMS = Self.retryAfterMS(machine, extras?.sending, retryAt: retryAt, at: now)
    sends = machine.sends
    if titles == nil, extras == nil { return }
    var others = Details()
    switch state {
    case .counting, .paused:
      others.title = titles?.counting.map { Title.text($0, remaining: remaining, left: left) }
    case .ready: others.title = titles?.ready
    case .idle: break
    }
    if let extras {
      others.owner = extras.owner
      others.annotations = extras.annotations
      if let sending = extras.sending, sending.isInForce {
        sends = sending.record.sendCount(by: sending.policy, at: now.boot)
        others.quota = QuotaView(sending.record, sending.policy, code: code, at: now.boot)
      }
    }
    self.others = others
  }

  /// Returns the milliseconds until a start is accepted, rounded up.
  static func retryAfterMS(
    _ machine: Countdown, _ sending: Sending?, retryAt: Instant?, at now: Moment
  ) -> Int64 {
    if let retryAt { return (retryAt - now.boot).millisecondsRoundedUp }
    guard let sending, sending.isInForce else {
      return machine.remainingTime(at: now.boot).millisecondsRoundedUp
    }
    let until = machine.refusal(by: sending.policy, sending.record, at: now.boot)?.until
    return until.map { ($0 - now.boot).millisecondsRoundedUp } ?? 0
  }

  // MARK: Fields

  package static var blank: CountdownView {
    var view = CountdownView(key: [], .idle, Generation(0), nowUnixMS: 0)
    view.quota = .blank
    view.codes = []
    return view
  }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writeState(to: &writer)
    writeProgress(to: &writer)
    writer.answer(
      answer,
      [
        .cooldown, .window, .exhausted, .limit, .blocked, .repeated, .degraded, .expired, .locked,
        .passed, .guesses, .refunds,
      ])
    writer.field(
      "retry_after_ms", retryAfterMS, .duration(),
      "The time until START is accepted, with windows, channels and limits; while paused, the "
        + "earliest time. 0 when ready, unless another key has used the room of a limit since. In "
        + "a reply to ATTEMPT with the reason `guesses`, `limit` or `blocked`: until these allow "
        + "one.")
    writePlan(to: &writer)
    if let codes {
      writer.field(
        "codes", records: codes, .record("live-code", CodeView.fields),
        "In a reply to ATTEMPT ANY: the codes that may be checked.")
    }
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    guard name != .cancelled else { return writer.over("idle", at: nowUnixMS) }
    writer.field("state", state.text)
    writeProgress(to: &writer)
    switch name {
    case .refused:
      writer.field("retry_after_ms", retryAfterMS)
      quota?.write(to: &writer)
    case .retimed:
      if let limit = quota?.limit { writer.field("limit", other: limit, of: .throttle) }
    case .forgiven:
      writeSends(to: &writer)
      writer.field("uid", forgivenBy.map(Int64.init))
    case .refunded, .expired, .locked, .passed:
      writeSends(to: &writer)
    case .started, .snapshot:
      writePlan(to: &writer)
    default:
      break
    }
  }

  /// Returns a fixed bound for views that have only numbers, as most do.
  package func maximumEventBytes(_ head: Event.Head) -> Int {
    rest.isNone ? EventLog.maximumOfNumbers : fieldBytes(head)
  }

  func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "state", state.rawValue, .choice(State.self),
      "`idle`: cancelled, with sends on record, or forgotten while limits count its sends (and "
        + "snapshots of an unknown key).")
    writer.generation(generation)
  }

  private func writePlan(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("count", Int64(count), .count, "The number of steps, as started.")
    writer.field("every_ms", everyMS, .duration(), "The length of a step, as started.")
    writeSends(to: &writer)
    writer.owner(owner)
    annotations.write(to: &writer)
  }

  private func writeSends(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "sends", Int64(sends), .count,
      "The accepted sends since the key was new or sends started over, without refunded ones.")
    quota?.write(to: &writer)
  }

  func writeProgress(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "remaining", remaining, .count,
      "The steps left, the number to show: `remaining_ms` / `every_ms` rounded up.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS,
      "The time until it is ready; 0 only when ready or idle.",
      deadline: "When it is or was ready; null while paused.")
    writer.field(
      "title", bytes: title, .text().orNull,
      "TITLE with the steps left, or READYTITLE; null without one.")
  }
}

/// The fields of a view that only countdowns with a policy have.
package struct QuotaView: Equatable, Sendable {
  private var rules: SendPolicy
  /// The number of sends, which says the channels.
  private var sends: UInt32
  package var sendsLeft: Int?
  /// Milliseconds until the newest or requested code expires; nil if it is not valid.
  package var expiresInMS: Int64?
  package var attemptsLeft: Int64?
  /// The attempts left over all codes; nil if the policy does not bound them.
  package var guessesLeft: Int64?
  /// The sends that can still be given back; nil if the policy does not bound them.
  package var refundsLeft: Int64?
  /// The key of the limit that a start is refused for.
  package var limit: [UInt8]?
  private var hasLimits: Bool

  package var policy: String { rules.name }
  package var channel: String? { rules.channels(after: sends).last }
  package var nextChannel: String? { rules.channels(after: sends).next }

  init(_ record: SendRecord, _ policy: SendPolicy, code: Generation?, at now: Instant) {
    rules = policy
    sends = record.sendCount(by: policy, at: now)
    hasLimits = !policy.rules.limits.isEmpty || !policy.rules.attemptLimits.isEmpty
    sendsLeft = record.sendsLeft(by: policy, at: now)
    guessesLeft = record.guessFilling(by: policy, at: now).map { Int64($0.left) }
    refundsLeft = record.refundFilling(by: policy, at: now).map { Int64($0.left) }
    guard let code = record.code(code, at: now), let expires = code.expires else { return }
    expiresInMS = (expires - now).millisecondsRoundedUp
    attemptsLeft = policy.rules.attempts.map { Int64($0) - Int64(min(code.attempts, $0)) }
  }

  /// A view that has all fields.
  static var blank: QuotaView {
    let blank = Sending.blank
    var view = QuotaView(blank.record, blank.policy, code: nil, at: .zero)
    view.hasLimits = true
    (view.guessesLeft, view.refundsLeft) = (0, 0)
    return view
  }

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "sends_left", sendsLeft.map { Int64($0) }, .count.orNull,
      "With a policy: the sends that windows and channels still allow, cooldown aside; null if "
        + "unlimited.")
    writer.field("policy", policy, .text().orNull, "With a policy: its name.")
    if hasLimits {
      writer.field(
        "limit", other: limit, of: .throttle, .text(),
        "With a policy that names limits: the key of the one that has room last; null if none "
          + "refuses.")
    }
    writer.field(
      "channel", channel, .text().orNull,
      "With a policy: the channel of the newest send; null without channels.")
    writer.field(
      "next_channel", nextChannel, .text().orNull,
      "With a policy: the channel of the next send; null if none is left.")
    writer.field(
      "expires_in_ms", expiresInMS, .duration().orNull,
      "With a policy: how long the newest code is valid; null if it is not.")
    writer.field(
      "attempts_left", attemptsLeft, .count.orNull,
      "With a policy: the attempts left for the newest code; null if it is not valid or unlimited.")
    if let guessesLeft {
      writer.field(
        "guesses_left", guessesLeft, .count.orNull,
        "With a policy that has `guesses`: the attempts left for the key, over all its codes.")
    }
    if let refundsLeft {
      writer.field(
        "refunds_left", refundsLeft, .count.orNull,
        "With a policy that has `refunds`: how many more sends REFUND gives back.")
    }
  }
}

/// A code that may be checked.
package struct CodeView: FieldRecord, Equatable, Sendable {
  package let generation: Generation
  package let expiresInMS: Int64
  package let attemptsLeft: Int64?

  init(_ send: SendRecord.Send, by policy: SendPolicy, at now: Instant) {
    generation = send.generation
    expiresInMS = ((send.expires ?? now) - now).millisecondsRoundedUp
    attemptsLeft = policy.rules.attempts.map { Int64($0) - Int64(min(send.attempts, $0)) }
  }

  package static var blank: CodeView { CodeView(.blank, by: Sending.blank.policy, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.generation(generation, "That of its send.")
    writer.field("expires_in_ms", expiresInMS, .duration(), "How long it is valid.")
    writer.field(
      "attempts_left", attemptsLeft, .count.orNull, "Its attempts left; null if unlimited.")
  }
}

extension CountdownKind {
  static let events: [EventDescription] = [
    .init(.started, "START or RESEND was accepted."),
    .init(.refused, "START or RESEND was refused."),
    .init(.tick, "A step has passed; only while somebody is subscribed."),
    .init(.ready, "The cooldown is over."),
    .init(.paused, "PAUSE."),
    .init(.resumed, "RESUME."),
    .init(
      .retimed,
      "The end has changed: RETIME, or `reason` `limit`, `blocked`, `locked` or `guesses` says "
        + "why."),
    .init(.cancelled, "`reason` `cancelled` or `owner-gone`."),
    .init(.refunded, "REFUND."),
    .init(
      .locked, "The last attempt of a code was made; `generation` is that of its send."),
    .init(.passed, "A code was used; `generation` is that of its send."),
    .init(.expired, "The validity of a code is over; `generation` is that of its send."),
    .init(
      .forgiven, "FORGIVE.",
      [Field("uid", .count.orNull, "The administrator who has forgiven the key.")]),
  ]
}
