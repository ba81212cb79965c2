import Memory

/// What is due for countdowns, and when.
extension Engine {
  /// Returns when a countdown's timer fires; nil if none is armed.
  func due(ofCountdown index: UInt32) -> Instant? {
    countdowns.timers[index].flatMap(due(ofRecord:))
  }

  /// Arms, moves or disarms a countdown's one timer. O(1).
  func arm(countdown index: UInt32, for deadline: Instant?) {
    let timers = countdowns.timers
    guard timers[index] != nil || deadline != nil else { return }
    timers[index] = arm(record: timers[index], for: deadline, EntityRef(.countdown, index))
  }

  /// Runs what is due for a countdown. `due` is the time for which it was armed.
  func expireCountdown(_ index: UInt32, due: Instant, at now: Moment) {
    guard isAlive(countdowns.owner(index), at: now) else {
      cancelCountdown(index, reason: .ownerGone, at: now)
      return
    }
    var due = due
    while due <= now.boot {
      if expireCode(of: index, at: now) {
        guard let next = nextExpiry(ofCountdown: index, at: now) else { break }
        due = next
        continue
      }
      var machine = countdowns.machine(index)
      let sending = countdowns.sending(index)
      let kept = kept(index, machine, sending, at: now)
      switch machine.expire(at: now.boot, kept: kept) {
      case .tick:
        // The subscriber for whom it was armed may have left. The next tick is computed from the
        // steps left now, so missed ticks merge into one.
        if isWatched(countdown: index) {
          statistics.record(late: (now.boot - due).microseconds)
          publish(countdown: index, machine, due: due, at: now)
        }
      case .ready:
        if let sending, !sending.limits.isEmpty, waitForRoom(index, sending, at: now) {
          machine = countdowns.machine(index)
          break
        }
        countdowns.update(index, machine)
        sending?.ownUntil = nil
        // It was armed for its deadline, or for a tick that merges into this.
        if case .ready(let deadline) = machine.phase { due = deadline }
        statistics.record(late: (now.boot - due).microseconds)
        noteChange(ofCountdown: index, toSends: false)
        publish(countdown: index, machine, due: due, at: now)
      case .forgotten:
        guard outlive(index, at: now) else { return removeCountdown(index) }
        machine = countdowns.machine(index)
      case nil:
        break
      }
      guard let next = nextExpiry(ofCountdown: index, machine, sending, at: now) else { break }
      due = next
      if due > now.boot { return arm(countdown: index, for: due) }
    }
    armCountdown(index, at: now)
  }

  /// Arms a countdown for its next expiry, or for its next tick if it is watched.
  func armCountdown(_ index: UInt32, at now: Moment) {
    arm(countdown: index, for: nextExpiry(ofCountdown: index, at: now))
  }

  func cancelCountdown(_ index: UInt32, reason: Reason, at now: Moment) {
    if reason == .ownerGone {
      journal?.willEnd(.countdown, countdowns.key(index), reason, at: now)
      shadow?.learn { [key = countdowns.key(index)] other in
        other.countdowns.find(key).map { other.cancelCountdown($0, reason: reason, at: now) }
      }
    }
    statistics.countEnd(reason)
    publish(countdown: index, .cancelled, reason: reason, at: now)
    let entity = countdowns[index]
    guard entity.sending != nil else { return removeCountdown(index) }
    if reason == .cancelled, !entity.machine.isRefunded,
      let last = entity.sending?.record.sends.last, last.expires != nil
    {
      learn(.ignored, of: last, at: now)
    }
    _ = countdowns[index].machine.cancel(at: now.boot)
    connections.disown(EntityRef(.countdown, index), entity.owner)
    countdowns[index].owner = .none
    // This forgets it at once if no send matters any more. If the end of the owner is noticed late,
    // codes that expired meanwhile are reported first.
    armOrRun(index, at: now)
  }

  /// Arms a countdown that has changed, or runs what is due for it already.
  func armOrRun(_ index: UInt32, at now: Moment) {
    let next = nextExpiry(ofCountdown: index, at: now)
    if let next, next <= now.boot { return expireCountdown(index, due: next, at: now) }
    arm(countdown: index, for: next)
  }

  /// Runs what is due for the countdown of a key, and returns its index; nil if there is none.
  func currentCountdown(
    _ key: Span<UInt8>, at now: Moment
  ) -> UInt32? {
    currentCountdown(key, hash: countdowns.hash(key), at: now)
  }

  func currentCountdown(
    _ key: Span<UInt8>, hash: KeyIndex.Hash, at now: Moment
  ) -> UInt32? {
    guard let index = countdowns.find(key, hash: hash), runDue(countdown: index, at: now) else {
      return nil
    }
    return index
  }

  /// Runs what is due for a countdown. Returns false if it does not exist afterwards.
  func runDue(countdown index: UInt32, at now: Moment) -> Bool {
    guard countdowns.contains(index) else { return false }
    guard isAlive(countdowns.owner(index), at: now) else {
      cancelCountdown(index, reason: .ownerGone, at: now)
      return countdowns.contains(index)
    }
    // Usually it still counts, and nothing but its deadline can be due.
    if case .counting(let deadline) = countdowns.machine(index).phase, deadline > now.boot,
      !subscriptions.isAnythingWatched, countdowns.sending(index) == nil
    {
      return true
    }
    guard let due = due(ofCountdown: index), due <= now.boot else { return true }
    expireCountdown(index, due: due, at: now)
    return countdowns.contains(index)
  }

  func nextExpiry(ofCountdown index: UInt32, at now: Moment) -> Instant? {
    nextExpiry(
      ofCountdown: index, countdowns.machine(index), countdowns.sending(index), at: now)
  }

  private func nextExpiry(
    ofCountdown index: UInt32, _ machine: Countdown, _ sending: Sending?, at now: Moment
  ) -> Instant? {
    if case .counting(let deadline) = machine.phase, sending == nil,
      !subscriptions.isAnythingWatched
    {
      return deadline
    }
    let next = machine.nextExpiry(
      at: now.boot, watched: machine.ticks && isWatched(countdown: index),
      kept: kept(index, machine, sending, at: now))
    guard let code = sending?.record.nextCodeExpiry else { return next }
    return next.map { min($0, code) } ?? code
  }
}
