/// The sends to a key, as far as they still matter to its policy: the quota.
///
///     (free) --send--> (free)                    while the windows have room and channels are left
///     (free) --send--> full --oldest leaves its window--> (free)
///     (free) --send--> exhausted --longest window empty, sends start over--> (free)
///     any --refund of the newest--> (free)
///
/// The cooldown after each send is a `Countdown`'s; see `SendRecord+Countdown.swift`. The codes are
/// in `SendRecord+Codes.swift`. Plain fields: all there is to it can be stored and read back.
package struct SendRecord: Equatable, Sendable {
  package struct Send: Equatable, Sendable {
    package var generation: Generation
    package var at: Instant
    /// Until when its code is valid; nil once it is not, or if it never was.
    package var expires: Instant?
    /// How often its code was tried.
    package var attempts: UInt32

    package init(
      generation: Generation, at: Instant, expires: Instant?, attempts: UInt32 = 0
    ) {
      self.generation = generation
      self.at = at
      self.expires = expires
      self.attempts = attempts
    }
  }

  /// The sends in a window or with a valid code, and the newest; in the order of time.
  /// As many as the longest window allows and `mostCodes`, at most.
  package internal(set) var sends: [Send]
  /// The position of the newest since sends started over, from 1; 0 if there is none.
  package internal(set) var number: UInt32
  /// The newest code was used.
  package internal(set) var isPassed: Bool

  package init(sends: [Send] = [], number: UInt32 = 0, isPassed: Bool = false) {
    self.sends = sends
    self.number = number
    self.isPassed = isPassed
  }

  // MARK: Inputs

  /// A send was accepted: it enters all windows, and its code is valid from now on.
  mutating func enter(_ generation: Generation, by policy: SendPolicy, at now: Instant) {
    number = sendCount(by: policy, at: now) + 1
    if policy.rules.onResend == .replace { forgetCodes() }
    let expires = policy.rules.validity.map { now + $0 }
    sends.append(Send(generation: generation, at: now, expires: expires))
    if sends.count > Self.mostCodes { sends[sends.count - 1 - Self.mostCodes].expires = nil }
    isPassed = false
    prune(by: policy, at: now)
  }

  /// The newest send was none. What came before it is as it was: all that blocked the one before
  /// was over when this one was accepted.
  mutating func refund(by policy: SendPolicy, at now: Instant) {
    let count = sendCount(by: policy, at: now)
    guard sends.popLast() != nil else { return }
    number = count > 0 ? count - 1 : 0
  }

  /// What a policy finds that follows `old`: sends that have left the windows of `old` are over.
  /// One of them whose code is still valid is before any window from now on.
  package func handedOver(from old: SendPolicy, at now: Instant) -> SendRecord {
    guard old.longest > .zero else { return self }
    var record = self
    record.number = sendCount(by: old, at: now)
    record.sends = sends.compactMap { send in
      guard send.at + old.longest <= now else { return send }
      guard let expires = send.expires, expires > now else { return nil }
      var send = send
      send.at = now + Interval.longest * -1
      return send
    }
    return record
  }

  /// Forgets sends that have left the longest window and have no code any more, but the newest.
  mutating func prune(by policy: SendPolicy, at now: Instant) {
    let stale = sends.dropLast().prefix { send in
      send.at + policy.longest <= now && send.expires == nil
    }
    sends.removeFirst(stale.count)
  }

  // MARK: What is so

  /// Sends since they started over, which is when the longest window is empty. Without windows
  /// they start over when the key is forgotten.
  package func sendCount(by policy: SendPolicy, at now: Instant) -> UInt32 {
    guard policy.longest > .zero else { return number }
    guard let last = sends.last, last.at + policy.longest > now else { return 0 }
    return number
  }

  /// How many more sends windows and channels allow as of now; nil where nothing limits them.
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

  /// How many sends are in a window. `changes` is when it has room again, or, if it has room, when
  /// the oldest of them leaves; nil while it is empty.
  package func filling(
    _ window: SendPolicy.Window, at now: Instant
  ) -> (inside: Int, changes: Instant?) {
    let gone = sends.lastIndex { $0.at + window.length <= now }
    let inside = sends.count - (gone.map { $0 + 1 } ?? 0)
    guard inside > 0 else { return (0, nil) }
    return (inside, sends[sends.count - min(inside, window.limit)].at + window.length)
  }

  /// The channels of the newest send and of the next one; nil when there is none.
  package func channels(
    by policy: SendPolicy, at now: Instant
  ) -> (last: String?, next: String?) {
    let channels = policy.rules.channels
    let count = Int(sendCount(by: policy, at: now))
    return (
      (1...max(channels.count, 1)).contains(count) && !channels.isEmpty
        ? channels[count - 1] : nil,
      count < channels.count ? channels[count] : nil
    )
  }

  /// Why, and until when, windows and channels allow no send; nil if they do.
  package func block(by policy: SendPolicy, at now: Instant) -> Refusal? {
    guard let last = sends.last else { return nil }
    var block: Refusal?
    for window in policy.rules.windows {
      let filling = filling(window, at: now)
      guard filling.inside >= window.limit, let free = filling.changes else { continue }
      if free > block?.until ?? now { block = Refusal(.window, until: free) }
    }
    let channels = policy.rules.channels
    if !channels.isEmpty, sendCount(by: policy, at: now) >= channels.count {
      // Never earlier than any window: each of them is empty by then.
      block = Refusal(.exhausted, until: last.at + policy.longest)
    }
    return block
  }

  /// Until when a send matters: to a window, or because its code is valid; nil if none does
  /// any more.
  package func matters(to policy: SendPolicy, at now: Instant) -> Instant? {
    guard let last = sends.last else { return nil }
    let until = max(last.at + policy.longest, codes.compactMap(\.expires).max() ?? last.at)
    return until > now ? until : nil
  }
}

/// Why no code may be sent, and when one may be.
package struct Refusal: Equatable, Sendable {
  package enum Reason: CaseIterable, Sendable {
    /// The cooldown after the last send runs.
    case cooldown
    /// A window holds as many sends as it allows.
    case window
    /// No channel is left until sends start over.
    case exhausted
  }

  package var reason: Reason
  package var until: Instant

  init(_ reason: Reason, until: Instant) {
    self.reason = reason
    self.until = until
  }
}
