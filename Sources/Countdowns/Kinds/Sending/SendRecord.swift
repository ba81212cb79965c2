/// The sends to a key that still matter to its policy: the quota.
///
///     (free) --send--> (free)                    while the windows have room and channels are left
///     (free) --send--> full --oldest leaves its window--> (free)
///     (free) --send--> exhausted --longest window empty, sends start over--> (free)
///     any --refund of the newest, if the policy still gives any back--> (free)
///
/// Locked codes are followed by a lockout, if the policy has one:
///
///     (free) --code locked--> locked out --step over--> (free) --code locked--> locked out, longer
///     any --PASS, quiet for as long as the longest step--> (free), and the steps start over
///
/// So is the last guess, if the policy bounds the attempts at all codes together:
///
///     (free) --attempt--> no guesses left --oldest leaves its window, PASS, FORGIVE--> (free)
///
/// A `Countdown` has the cooldown after each send; see `SendRecord+Countdown.swift`. The codes are
/// in `SendRecord+Codes.swift`. All state is in plain fields that can be stored and read back.
package struct SendRecord: Equatable, Sendable {
  package struct Send: Equatable, Sendable {
    package var generation: Generation
    package var at: Instant
    /// When its code expires; nil if the code is no longer valid or never was.
    package var expires: Instant?
    /// The number of attempts at its code.
    package var attempts: UInt32
    /// The keys of the limits that it was charged to. If a fleet shares them, an empty one follows,
    /// and the ids by which they know it. One array, as memory counts and few sends have any.
    private var charge: [[UInt8]]

    /// The keys of the limits that it was charged to.
    package var limits: [[UInt8]] {
      get { isShared ? Array(charge.prefix(charge.count / 2)) : charge }
      set { charge = newValue }
    }

    /// Whether limits know it by other ids than its generation.
    var isShared: Bool { charge.count % 2 == 1 && charge[charge.count / 2].isEmpty }

    /// The shares of limits that it was charged to.
    var shares: [LimitShare] {
      get { (0..<limits.count).map { share($0) } }
      set { charge = newValue.map(\.key) + [[]] + newValue.map { Array("\($0.id)".utf8) } }
    }

    func share(_ index: Int) -> LimitShare {
      guard isShared else { return LimitShare(key: charge[index], id: generation.value) }
      let id = Int64(String(decoding: charge[charge.count / 2 + 1 + index], as: UTF8.self))
      return LimitShare(key: charge[index], id: id ?? 0)
    }

    package init(
      generation: Generation, at: Instant, expires: Instant?, attempts: UInt32 = 0,
      limits: [[UInt8]] = []
    ) {
      self.generation = generation
      self.at = at
      self.expires = expires
      self.attempts = attempts
      charge = limits
    }
  }

  /// An attempt that counts for the key, whichever of its codes it was at.
  package struct Guess: Equatable, Sendable {
    package var at: Instant
    /// The send whose code was tried; of an attempt at all valid codes, the newest send.
    package var generation: Generation
    package var isAtAny: Bool

    /// Whether the code of that send was tried.
    func isAt(_ code: Generation) -> Bool {
      isAtAny ? code <= generation : code == generation
    }
  }

  /// The sends in a window or with a valid code, and the newest send, oldest first. At most as many
  /// as the longest window allows, plus `maximumCodes`.
  package internal(set) var sends: [Send]
  /// The position of the newest send since sends started over, from 1; 0 without a send.
  package internal(set) var number: UInt32
  /// Whether a code has been used since the newest send.
  package internal(set) var isPassed: Bool
  private var rest = OptionalDetails<Rest>()

  /// What few keys have.
  private struct Rest: Equatable, Sendable {
    var locks: UInt32 = 0
    var lockedUntil: Instant?
    var past: [Send] = []
    var tried: [Generation] = []
    var guesses: [Guess] = []
    var refunds: [Instant] = []
  }

  private mutating func change<R>(_ body: (inout Rest) -> R) -> R {
    if rest.isNone { rest.value = Rest() }
    return rest.change(body)
  }

  /// The number of codes that were locked since the steps of the lockout started over (see
  /// `lockCount`), and until when nothing is sent after the last of them.
  package internal(set) var locks: UInt32 {
    get { rest.read { $0.locks } ?? 0 }
    set { if newValue != 0 || !rest.isNone { change { $0.locks = newValue } } }
  }
  package internal(set) var lockedUntil: Instant? {
    get { rest.read { $0.lockedUntil } ?? nil }
    set { if newValue != nil || !rest.isNone { change { $0.lockedUntil = newValue } } }
  }
  /// Sends that the policy has forgotten and its limits may still count, oldest first. Only FORGIVE
  /// and REFUND look at them, to give them back.
  package internal(set) var past: [Send] {
    get { rest.read { $0.past } ?? [] }
    set { if !newValue.isEmpty || !rest.isNone { change { $0.past = newValue } } }
  }
  /// How many of them there are at most; the oldest make room.
  package static let maximumPast = 1_000
  /// The codes that were tried at once last. While one of them is valid, PASS has to name its code.
  var tried: [Generation] {
    get { rest.read { $0.tried } ?? [] }
    set { if !newValue.isEmpty || !rest.isNone { change { $0.tried = newValue } } }
  }
  /// The attempts in the policy's window of guesses, oldest first.
  package internal(set) var guesses: [Guess] {
    get { rest.read { $0.guesses } ?? [] }
    set { if !newValue.isEmpty || !rest.isNone { change { $0.guesses = newValue } } }
  }
  /// When sends were given back, in the policy's window of refunds, oldest first.
  package internal(set) var refunds: [Instant] {
    get { rest.read { $0.refunds } ?? [] }
    set { if !newValue.isEmpty || !rest.isNone { change { $0.refunds = newValue } } }
  }

  package init(sends: [Send] = [], number: UInt32 = 0, isPassed: Bool = false) {
    self.sends = sends
    self.number = number
    self.isPassed = isPassed
  }

  package static func == (a: SendRecord, b: SendRecord) -> Bool {
    a.sends == b.sends && a.number == b.number && a.isPassed == b.isPassed
      && a.rest.value ?? Rest() == b.rest.value ?? Rest()
  }

  /// The lowest version of records that has everything of it.
  var format: UInt8 {
    if !past.isEmpty { return EntityRecord.past }
    if !guesses.isEmpty || !refunds.isEmpty { return EntityRecord.bounded }
    if !tried.isEmpty { return EntityRecord.triedAtOnce }
    if sends.contains(where: \.isShared) { return EntityRecord.shared }
    return locks > 0 || sends.contains { !$0.limits.isEmpty }
      ? EntityRecord.extended : EntityRecord.plain
  }

  // MARK: Inputs

  /// Records an accepted send: it enters all windows, and its code is valid from now on.
  mutating func enter(
    _ generation: Generation, by policy: SendPolicy, limits: [[UInt8]], at now: Instant
  ) {
    number = sendCount(by: policy, at: now) + 1
    if policy.rules.onResend == .replace { forgetCodes() }
    tried = triedCodes(upTo: generation, at: now).map(\.generation)
    let expires = policy.rules.validity.map { now + $0 }
    sends.append(Send(generation: generation, at: now, expires: expires, limits: limits))
    if sends.count > Self.maximumCodes { sends[sends.count - 1 - Self.maximumCodes].expires = nil }
    isPassed = false
    prune(by: policy, at: now)
  }

  /// Removes the newest send. Then nothing blocks the next one: whatever blocked the newest was
  /// over when it was accepted.
  mutating func refund(by policy: SendPolicy, at now: Instant) {
    let count = sendCount(by: policy, at: now)
    guard let last = sends.popLast() else { return }
    past.removeAll { $0.generation == last.generation }
    number = count > 0 ? count - 1 : 0
    guard policy.rules.refunds != nil else { return }
    pruneRefunds(by: policy, at: now)
    // A server's clock may have been set back.
    refunds.append(max(now, refunds.last ?? now))
  }

  private mutating func pruneRefunds(by policy: SendPolicy, at now: Instant) {
    guard let window = policy.rules.refunds else { return }
    refunds.removeAll { $0 + window.length <= now }
  }

  /// Returns the record for a policy that succeeds `old`. Sends that have left the windows of `old`
  /// are dropped, and lockouts after which its steps have started over. If the code of a send is
  /// still valid, the send is moved before any window instead.
  package func handedOver(from old: SendPolicy, at now: Instant) -> SendRecord {
    var record = self
    if !old.rules.lockout.isEmpty, lockCount(by: old, at: now) == 0 {
      (record.locks, record.lockedUntil) = (0, nil)
    }
    record.pruneGuesses(by: old, at: now)
    record.pruneRefunds(by: old, at: now)
    guard old.longest > .zero else { return record }
    record.number = sendCount(by: old, at: now)
    record.sends = sends.compactMap { send in
      guard send.at + old.longest <= now else { return send }
      record.note(past: CollectionOfOne(send))
      guard let expires = send.expires, expires > now else { return nil }
      var send = send
      send.at = now + Interval.longest * -1
      return send
    }
    return record
  }

  /// Drops sends that have left the longest window and have no code any more, except the newest.
  mutating func prune(by policy: SendPolicy, at now: Instant) {
    let stale = sends.dropLast().prefix { send in
      send.at + policy.longest <= now && send.expires == nil
    }
    note(past: stale)
    sends.removeFirst(stale.count)
  }

  /// Notes sends that are on record no longer, or not at the moment at which they were.
  private mutating func note(past old: some Collection<Send>) {
    for send in old where !send.limits.isEmpty {
      guard !past.contains(where: { $0.generation == send.generation }) else { continue }
      past.append(send)
      past[past.count - 1].expires = nil
    }
    if past.count > Self.maximumPast { past.removeFirst(past.count - Self.maximumPast) }
  }

  /// A record without sends but those that only limits count, as if the key were new.
  var forgotten: SendRecord {
    var record = self
    record.note(past: sends)
    var new = SendRecord()
    new.past = record.past
    return new
  }

  /// Whether limits are all that still counts what was sent.
  var isForgotten: Bool { sends.isEmpty && number == 0 && lockedUntil == nil && !past.isEmpty }

  /// Removes the send of a generation that only limits still count.
  mutating func takePast(_ generation: Generation) -> Send? {
    past.lastIndex { $0.generation == generation }.map { past.remove(at: $0) }
  }

  /// The newest send, also if only limits still count it.
  var last: Send? { sends.last ?? past.last }

  /// All sends that limits may count.
  var charged: [Send] {
    let known = Set(past.map(\.generation))
    return past + sends.filter { !known.contains($0.generation) }
  }

  // MARK: State

  /// Returns the number of sends since they started over. They start over once the longest window
  /// is empty; without windows, when the key is forgotten.
  package func sendCount(by policy: SendPolicy, at now: Instant) -> UInt32 {
    guard policy.longest > .zero else { return number }
    guard let last = sends.last, last.at + policy.longest > now else { return 0 }
    return number
  }

  /// Returns how many more sends windows and channels allow now; nil if nothing limits them.
  package func sendsLeft(by policy: SendPolicy, at now: Instant) -> Int? {
    let rules = policy.rules
    var left: Int?
    for window in rules.windows {
      left = min(left ?? .max, max(window.limit - filling(window, at: now).inside, 0))
    }
    if !rules.channels.isEmpty {
      let unused = rules.channels.count - Int(sendCount(by: policy, at: now))
      left = min(left ?? .max, max(unused, 0))
    }
    return left
  }

  /// Returns the number of sends in a window. `changes` is when a full window has room again, or
  /// when the oldest send leaves one with room; nil if the window is empty.
  package func filling(
    _ window: SendPolicy.Window, at now: Instant
  ) -> (inside: Int, changes: Instant?) {
    window.filling(sends.lazy.map { $0.at }, at: now)
  }

  /// Returns why and until when windows or channels allow no send; nil if they allow one.
  package func block(by policy: SendPolicy, at now: Instant) -> Refusal? {
    Refusal.last(sendBlock(by: policy, at: now), attemptBlock(by: policy, at: now))
  }

  /// Returns why and until when the attempts at its codes allow no send; nil if they allow one.
  func attemptBlock(by policy: SendPolicy, at now: Instant) -> Refusal? {
    let lock = lockedUntil.flatMap { $0 > now ? Refusal(.locked, until: $0) : nil }
    return Refusal.last(lock, guessBlock(by: policy, at: now))
  }

  private func sendBlock(by policy: SendPolicy, at now: Instant) -> Refusal? {
    guard let last = sends.last else { return nil }
    var block: Refusal?
    for window in policy.rules.windows {
      let filling = filling(window, at: now)
      guard filling.inside >= window.limit, let free = filling.changes else { continue }
      if free > block?.until ?? now { block = Refusal(.window, until: free) }
    }
    let channels = policy.rules.channels
    if !channels.isEmpty, sendCount(by: policy, at: now) >= channels.count {
      // No window can block for longer: each of them is empty by then.
      block = Refusal(.exhausted, until: last.at + policy.longest)
    }
    return block
  }

  /// Returns how many refunds are in their window; nil if nothing bounds them.
  func refundFilling(by policy: SendPolicy, at now: Instant) -> BoundFilling? {
    policy.rules.refunds.map { BoundFilling($0, refunds, at: now) }
  }

  /// Returns when the newest refund leaves its window; nil if there is none.
  private func refundEnd(by policy: SendPolicy) -> Instant? {
    guard let window = policy.rules.refunds, let last = refunds.last else { return nil }
    return last + window.length
  }

  /// When the newest of what outlives the owner of the countdown began; nil if nothing does.
  var lastUse: Instant? {
    [last?.at, guesses.last?.at, refunds.last, lockedUntil].compactMap(\.self).max()
  }

  /// Returns until when a send matters, to a window or for its valid code; or an attempt or a
  /// refund, to later ones. Nil if none does.
  package func matters(to policy: SendPolicy, at now: Instant) -> Instant? {
    var until = sends.last.map { last in
      max(last.at + policy.longest, codes.compactMap(\.expires).max() ?? last.at)
    }
    for known in [lockEnd(by: policy), guessEnd(by: policy), refundEnd(by: policy)] {
      if let known { until = max(until ?? known, known) }
    }
    guard let until else { return nil }
    return until > now ? until : nil
  }
}

/// Why no code may be sent, and when one may be.
package struct Refusal: Equatable, Sendable {
  package var reason: Reason
  package var until: Instant
  /// The key of the limit that refuses; nil if it is the key's own policy.
  package var limit: [UInt8]?

  init(_ reason: Reason, until: Instant) {
    self.reason = reason
    self.until = until
  }

  /// Returns whichever ends last; the first if both end at once.
  static func last(_ first: Refusal?, _ second: Refusal?) -> Refusal? {
    guard let first else { return second }
    guard let second, second.until > first.until else { return first }
    return second
  }
}

/// How full the window is that bounds something of a key besides its sends.
struct BoundFilling {
  let window: SendPolicy.Window
  let inside: Int
  /// When a full window has room again, or the oldest leaves one with room; nil if it is empty.
  let changes: Instant?

  init(
    _ window: SendPolicy.Window, _ moments: some RandomAccessCollection<Instant>, at now: Instant
  ) {
    self.window = window
    (inside, changes) = window.filling(moments, at: now)
  }

  var left: Int { max(window.limit - inside, 0) }
  /// Until when there is no room; nil if there is.
  var fullUntil: Instant? { left == 0 ? changes : nil }
}

extension SendPolicy.Window {
  /// Returns how many of the moments, oldest first, are in the window. `changes` is when a full
  /// window has room again, or when the oldest leaves one with room; nil if the window is empty.
  func filling(
    _ moments: some RandomAccessCollection<Instant>, at now: Instant
  ) -> (inside: Int, changes: Instant?) {
    let gone = moments.lastIndex { $0 + length <= now }
    let first = gone.map { moments.index(after: $0) } ?? moments.startIndex
    let inside = moments.distance(from: first, to: moments.endIndex)
    guard inside > 0 else { return (0, nil) }
    let leaving = moments.index(moments.endIndex, offsetBy: -min(inside, limit))
    return (inside, moments[leaving] + length)
  }
}
