/// What countdowns publish, log and store.
extension Engine {
  func isWatched(countdown index: UInt32) -> Bool {
    subscriptions.isAnythingWatched
      && countdowns.withKey(index) { subscriptions.isWatched(.countdown, $0) }
  }

  /// Notes a change to be stored, for changes that no call of `publish` notes. Only the sends of a
  /// countdown with an owner are stored.
  func noteChange(ofCountdown index: UInt32, toSends: Bool) {
    guard changes.isOn else { return }
    if !toSends, !changes.areAllKept, countdowns.owner(index) != .none, countdowns.hasSends(index) {
      return
    }
    changes.note(EntityRef(.countdown, index), isKept: CountdownKind.isDurable(index, in: self))
  }

  /// Publishes an event. `generation` is the entity's unless the event is about an earlier code.
  func publish(
    countdown index: UInt32, _ name: Event.Name, _ generation: Generation? = nil,
    due: Instant? = nil, reason: Reason? = nil, refusal: Refusal? = nil, by uid: UInt32? = nil,
    at now: Moment
  ) {
    var head = Event.Head(
      name, generation ?? countdowns.generation(index), due: due, reason: reason, at: now)
    noteEvent(name, ofCountdown: index)
    head.sequence = newSequence()
    let audience = audience(ofCountdown: index)
    let isForLog =
      eventLog.isOn && isLogged(name, ofCountdown: index)
      || reason == .ownerGone && eventLog.takesEndOfOwned(head.sequence)
    guard isForLog || audience != nil else { return }
    var view = countdowns.view(
      index, key: false, code: generation, retryAt: refusal?.until, at: now)
    view.quota?.limit = refusal?.limit
    view.forgivenBy = uid
    countdowns.withKey(index) { key in
      if isForLog { eventLog.append(head, key: key, view, of: countdowns.uid(index)) }
      if let audience { send(head, view, .countdown, key, to: audience) }
    }
  }

  private func noteEvent(_ name: Event.Name, ofCountdown index: UInt32) {
    if name.changesState { noteChange(ofCountdown: index, toSends: name.changesSends) }
  }

  private func isLogged(_ name: Event.Name, ofCountdown index: UInt32) -> Bool {
    context.isWorkbench || name.changesState && countdowns.owner(index) == .none
  }

  /// Publishes a tick or `ready`.
  ///
  /// - Parameter machine: the machine after the expiry.
  func publish(
    countdown index: UInt32, _ machine: Countdown, due: Instant, at now: Moment
  ) {
    let audience = audience(ofCountdown: index)
    let event = TimedEvent(
      machine, countdowns.generation(index), sequence: newSequence(),
      isKept: context.isWorkbench || countdowns.owner(index) == .none, due: due, at: now)
    let isForLog = event.changesStoredState && eventLog.isOn
    guard isForLog || audience != nil else { return }
    let titles = countdowns.titles(index)
    let title =
      event.isReady
      ? titles?.ready
      : titles?.counting.map {
        Title.text($0, remaining: event.remaining, left: machine.remainingTime(at: now.boot))
      }
    countdowns.withKey(index) { key in
      if isForLog { eventLog.append(event, key: key, title: title, of: countdowns.uid(index)) }
      if let audience {
        statistics.publications += 1
        observer?.observe(event.head, event.view(title: title), .countdown, key, to: audience)
        outbox.append(
          .countdown, key, event.sequence, canBeMerged: !event.isReady, to: audience
        ) { event.write(key: key, title: title, to: &$0) }
      }
    }
  }

  private func audience(ofCountdown index: UInt32) -> Audience? {
    guard subscriptions.isAnythingWatched else { return nil }
    return countdowns.withKey(index) { audience(.countdown, $0) }
  }
}

extension Event.Name {
  /// Whether the event is about a change to the sends or their codes.
  fileprivate var changesSends: Bool {
    switch self {
    case .started, .refunded, .expired, .locked, .passed, .forgiven: true
    default: false
    }
  }
}
