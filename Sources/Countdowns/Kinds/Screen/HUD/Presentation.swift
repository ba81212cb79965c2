/// A HUD on one level of one screen, with a grace period and minimum and maximum display times.
///
///     hidden --show--> waiting --grace over--> appearing --fade-in over--> visible
///     waiting --dismiss--> hidden (EARLY skip) | appearing (EARLY show)
///     appearing --dismissed and MIN over--> disappearing, reversing the fade-in
///     visible --dismissed and MIN over, last MAX over, message read--> disappearing
///     disappearing --fade-out over--> hidden
///     waiting, appearing, visible --show--> the same phase, with one more hold
///     disappearing --show--> appearing
///
/// Each SHOW of loading or progress takes a hold, which keeps the options of that SHOW. The HUD
/// shows the newest hold with the strictest mask of all holds; releasing the last one dismisses it.
/// A message, or a SHOW after a message or dismissal, replaces everything before it.
///
/// All times are instants of one clock. One will-disappear follows each will-appear, and one
/// did-disappear follows each SHOW that no other SHOW superseded.
package struct Presentation: Equatable, Sendable {
  package enum Phase: Equatable, Sendable {
    case waiting
    case appearing(since: Instant, until: Instant)
    case visible
    case disappearing(until: Instant)
    case hidden
  }

  /// A dismissal that was requested but could not happen at once.
  package enum Dismissal: Equatable, Sendable {
    /// DISMISS with DELAY.
    case delayed(until: Instant)
    /// A dismissal that waits until MIN is over.
    case held(since: Instant, End)
  }

  package enum Event: Equatable, Sendable {
    case willAppear, didAppear, updated, touched, paused, resumed
    case willDisappear, didDisappear
  }

  /// An event and the presentation after it. One input can cause several events.
  package struct Occurrence: Equatable, Sendable {
    package var event: Event
    package var presentation: Presentation
    /// When the event was due, if a deadline caused it.
    package var due: Instant?
    package var superseded: Generation?
  }

  /// The generation of the newest SHOW.
  package var generation: Generation
  package var phase: Phase
  package var dismissal: Dismissal?
  package var end: End?

  /// The holds, oldest first. Without holds, one element: the message, or the show that was
  /// dismissed. Never empty.
  package var shows: [Show]
  package var isHeld: Bool

  /// When the HUD was requested, began to appear and became visible. MIN counts from one of these,
  /// or from the dismissal.
  package var requestedAt: Instant
  package var appearedAt: Instant
  package var visibleSince: Instant
  package var pausedAt: Instant?

  /// The maximum number of holds: each reply lists all of them.
  package static let maximumHolds = 64

  /// Starts a presentation on a level where nothing is shown.
  package init(
    _ request: Request, generation: Generation, owner: Owner, at now: Instant,
    _ emit: (Occurrence) -> Void
  ) {
    self.generation = generation
    phase = .waiting
    shows = [Show(request, generation: generation, owner: owner, since: now)]
    isHeld = request.kind.takesHold
    requestedAt = now
    appearedAt = now
    visibleSince = now
    expire(at: now, byTime: false, emit)
  }

  // MARK: Inputs

  /// Adds one more hold, or supersedes the current presentation.
  package mutating func show(
    _ request: Request, generation: Generation, owner: Owner, at now: Instant,
    _ emit: (Occurrence) -> Void
  ) {
    if pausedAt != nil { unfreeze(at: now) }
    if case .disappearing = phase { hide(due: nil, emit) }
    let isOneMore = isHeld && request.kind.takesHold
    let isSameKind = request.kind == shown.request.kind
    var show = Show(request, generation: generation, owner: owner, since: now)
    if isSameKind, !isHidden { show.fraction = shown.fraction }
    if isOneMore { shows.append(show) } else { shows = [show] }
    isHeld = request.kind.takesHold
    let old = self.generation
    self.generation = generation
    dismissal = nil
    end = nil

    switch phase {
    case .waiting:
      if !isOneMore { requestedAt = now }
      emit(occurrence(.updated, superseding: old))
    case .appearing, .visible:
      if !isSameKind {
        requestedAt = now
        appearedAt = now
        visibleSince = now
      }
      emit(occurrence(.updated, superseding: old))
    case .disappearing, .hidden:
      requestedAt = now
      appear(at: now, due: nil, emit)
    }
    expire(at: now, byTime: false, emit)
  }

  /// Requests a dismissal, now or after `delay`; does not change a dismissal that is already held.
  package mutating func dismiss(
    _ end: End = .dismissed, delay: Interval? = nil, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    switch phase {
    case .disappearing, .hidden: return
    case .waiting, .appearing, .visible: break
    }
    if case .held = dismissal { return }
    // Their owners will not release these holds any more: left in place, they would keep the HUD of
    // a later SHOW up after its POP.
    dropHolds()
    if let delay, delay > .zero {
      dismissal = .delayed(until: frozen(now) + delay)
    } else {
      hold(end, since: frozen(now), at: frozen(now), due: nil, emit)
    }
    expire(at: now, byTime: false, emit)
  }

  /// Releases one hold; releasing the last one dismisses the HUD. Does nothing without a match.
  package mutating func pop(_ pop: Pop, at now: Instant, _ emit: (Occurrence) -> Void) {
    guard let (index, _) = hold(for: pop) else { return }
    guard shows.count > 1 else { return dismiss(at: now, emit) }
    shows.remove(at: index)
    emit(occurrence(.updated))
  }

  /// Releases the holds of closed owners, and dismisses a HUD that only they held or owned.
  package mutating func ownersGone(
    _ gone: Set<Owner>, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    // A dismissed HUD has no holds, but it has an owner until it disappears.
    guard release(all: gone, emit) == .wasLast else { return }
    dropHolds()
    // No owner is left to resume the HUD.
    resume(at: now, emit)
    dismiss(.ownerGone, at: now, emit)
  }

  /// Releases the holds of `owner`, whose work is done; releasing the last one dismisses the HUD.
  package mutating func releaseAll(
    of owner: Owner, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    if isHeld, release(all: [owner], emit) == .wasLast { dismiss(at: now, emit) }
  }

  package mutating func tap(inside: Bool, at now: Instant, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.touched))
    guard mask == .none, !inside else { return }
    switch phase {
    case .appearing, .visible: dismiss(.tapped, at: now, emit)
    case .waiting, .disappearing, .hidden: break
    }
  }

  /// Sets the progress and text of what is shown, or of the hold with `generation`. The text of a
  /// message determines its duration.
  package mutating func update(
    _ generation: Generation? = nil, fraction: Double?, status: [UInt8]?, at now: Instant,
    _ emit: (Occurrence) -> Void
  ) {
    let index = generation.flatMap(index(of:)) ?? shows.count - 1
    if let fraction { shows[index].fraction = fraction }
    if let status { shows[index].request.status = status }
    emit(occurrence(.updated))
    expire(at: now, byTime: false, emit)
  }

  package mutating func pause(at now: Instant, _ emit: (Occurrence) -> Void) {
    guard pausedAt == nil, phase != .hidden else { return }
    pausedAt = now
    emit(occurrence(.paused))
  }

  package mutating func resume(at now: Instant, _ emit: (Occurrence) -> Void) {
    guard pausedAt != nil else { return }
    unfreeze(at: now)
    emit(occurrence(.resumed))
    expire(at: now, byTime: false, emit)
  }

  /// Runs everything due by `now`, or by an earlier moment.
  package mutating func expire(
    through last: Instant? = nil, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    expire(through: last, at: now, byTime: true, emit)
  }

  // MARK: State

  package var isHidden: Bool { phase == .hidden }
  package var isPaused: Bool { pausedAt != nil }

  package var isDismissing: Bool {
    if case .disappearing = phase { return true }
    return dismissal != nil
  }

  /// The next deadline; nil if there is none, as while paused or hidden.
  package var nextExpiry: Instant? { pausedAt == nil ? nextStep : nil }

  /// When the HUD begins to disappear, as far as known; nil unless it is fully visible.
  package var disappearsAt: Instant? {
    switch phase {
    case .visible: break
    case .waiting, .appearing, .disappearing, .hidden: return nil
    }
    switch dismissal {
    case .delayed(let until): return earliest(release(dismissedAt: until), lastLimit)
    case .held(let since, _): return earliest(release(dismissedAt: since), lastLimit)
    case nil: return lastLimit
    }
  }

  /// Returns the time left until `disappearsAt`; it is frozen while paused.
  package func remainingTime(at now: Instant) -> Interval? {
    disappearsAt.map { max($0 - frozen(now), .zero) }
  }

  // MARK: Steps

  private var nextStep: Instant? {
    let delayed: Instant? =
      if case .delayed(let until) = dismissal { until } else { nil }
    switch phase {
    case .waiting:
      return earliest(graceEnd, delayed)
    case .appearing(_, let until):
      return earliest(earliest(until, heldUntil), delayed)
    case .visible:
      return earliest(earliest(heldUntil, firstLimit?.moment), delayed)
    case .disappearing(let until):
      return until
    case .hidden:
      return nil
    }
  }

  /// When the grace period ends: the shortest GRACE of all shows, counted from the first SHOW.
  var graceEnd: Instant {
    var grace = shown.request.grace
    for show in shows.dropLast() { grace = min(grace, show.request.grace) }
    return requestedAt + grace
  }

  /// When a held dismissal may take effect.
  private var heldUntil: Instant? {
    guard case .held(let since, _) = dismissal else { return nil }
    return release(dismissedAt: since)
  }

  /// Returns when MIN is over for a dismissal at `moment`.
  func release(dismissedAt moment: Instant) -> Instant {
    let request = shown.request
    guard request.minimum > .zero else { return moment }
    let from =
      switch request.minimumFrom {
      case .visible: if case .appearing(_, let until) = phase { until } else { visibleSince }
      case .appear: appearedAt
      case .request: requestedAt
      case .stop: moment
      }
    return max(moment, from + request.minimum)
  }

  private mutating func expire(
    through last: Instant? = nil, at now: Instant, byTime: Bool, _ emit: (Occurrence) -> Void
  ) {
    guard pausedAt == nil else { return }
    while let step = nextStep, step <= last ?? now {
      let due: Instant? = byTime ? step : nil
      if case .delayed(let until) = dismissal, until <= step {
        hold(.dismissed, since: until, at: now, due: due, emit)
        continue
      }
      switch phase {
      case .waiting:
        appear(at: now, due: due, emit)
      case .appearing(_, let until) where until <= step:
        phase = .visible
        visibleSince = now
        for index in shows.indices { shows[index].since = now }
        emit(occurrence(.didAppear, due: due))
      case .visible where shows.count > 1:
        // A dismissed HUD has no holds, so a MAX is over: it ends its own hold only.
        shows.remove(at: firstLimit!.index)
        emit(occurrence(.updated, due: due))
      case .appearing, .visible:
        disappear(step, at: now, due: due, emit)
      case .disappearing:
        hide(due: due, emit)
      case .hidden:
        return
      }
    }
  }

  private mutating func appear(at now: Instant, due: Instant?, _ emit: (Occurrence) -> Void) {
    phase = .appearing(since: now, until: now + shown.request.fadeIn)
    appearedAt = now
    emit(occurrence(.willAppear, due: due))
  }

  private mutating func disappear(
    _ step: Instant, at now: Instant, due: Instant?, _ emit: (Occurrence) -> Void
  ) {
    // If MAX and a held dismissal coincide, the dismissal is the reason.
    if case .held(_, let reason) = dismissal, let heldUntil, heldUntil <= step {
      end = reason
    } else {
      end = .timedOut
    }
    dropHolds()
    var fadeOut = shown.request.fadeOut
    if case .appearing(let since, let until) = phase {
      fadeOut = fadeOut.part(max(min(now, until) - since, .zero), of: until - since)
    }
    phase = .disappearing(until: now + fadeOut)
    emit(occurrence(.willDisappear, due: due))
  }

  private mutating func hide(due: Instant?, _ emit: (Occurrence) -> Void) {
    phase = .hidden
    dismissal = nil
    emit(occurrence(.didDisappear, due: due))
  }

  private mutating func hold(
    _ end: End, since: Instant, at now: Instant, due: Instant?, _ emit: (Occurrence) -> Void
  ) {
    dismissal = .held(since: since, end)
    guard case .waiting = phase else { return }
    switch shown.request.early {
    case .skip:
      self.end = .neverShown
      hide(due: due, emit)
    case .show:
      // The dismissal precedes the fade-in, so the fade-in runs in full.
      dismissal = .held(since: now + shown.request.fadeIn, end)
      appear(at: now, due: due, emit)
    }
  }

  private func occurrence(
    _ event: Event, due: Instant? = nil, superseding old: Generation? = nil
  ) -> Occurrence {
    Occurrence(event: event, presentation: self, due: due, superseded: old)
  }

  // MARK: Pausing

  /// Returns the current instant of the machine, which is frozen while paused.
  func frozen(_ now: Instant) -> Instant { pausedAt ?? now }

  private mutating func unfreeze(at now: Instant) {
    guard let since = pausedAt else { return }
    pausedAt = nil
    let shift = now - since
    requestedAt = requestedAt + shift
    appearedAt = appearedAt + shift
    visibleSince = visibleSince + shift
    for index in shows.indices { shows[index].since = shows[index].since + shift }
    switch phase {
    case .appearing(let since, let until):
      phase = .appearing(since: since + shift, until: until + shift)
    case .disappearing(let until): phase = .disappearing(until: until + shift)
    case .waiting, .visible, .hidden: break
    }
    switch dismissal {
    case .delayed(let until): dismissal = .delayed(until: until + shift)
    case .held(let since, let end): dismissal = .held(since: since + shift, end)
    case nil: break
    }
  }
}

private func earliest(_ a: Instant?, _ b: Instant?) -> Instant? {
  guard let a else { return b }
  guard let b else { return a }
  return min(a, b)
}

extension Interval {
  /// Returns this interval times `done`/`whole`, rounded up; unchanged if `whole` is zero.
  fileprivate func part(_ done: Interval, of whole: Interval) -> Interval {
    guard whole > .zero else { return self }
    let product = microseconds.multipliedFullWidth(by: done.microseconds)
    let (part, rest) = whole.microseconds.dividingFullWidth(product)
    return Interval(microseconds: part + (rest > 0 ? 1 : 0))
  }
}
