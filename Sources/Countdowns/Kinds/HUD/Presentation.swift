/// A HUD on one level of one screen, with a grace period and minimum and maximum display times.
///
///     hidden --show--> waiting --grace over--> appearing --fade-in over--> visible
///     waiting --dismiss--> hidden (EARLY skip) | appearing (EARLY show)
///     visible --dismissed and MIN over, MAX over, a message read--> disappearing
///     disappearing --fade-out over--> hidden
///     waiting, appearing, visible --show--> the same place, a new generation
///     disappearing --show--> appearing, a new generation
///
/// All times are moments of one clock. A new SHOW replaces those of the old one, so
/// nothing of an old generation can reach the new one. Will-appear and did-appear, will-disappear
/// and did-disappear always come in pairs.
package struct Presentation: Equatable, Sendable {
  package enum Phase: Equatable, Sendable {
    case waiting(until: Instant)
    case appearing(until: Instant)
    case visible
    case disappearing(until: Instant)
    case hidden
  }

  /// A dismissal that was requested but could not happen at once.
  package enum Dismissal: Equatable, Sendable {
    /// DISMISS with DELAY.
    case delayed(until: Instant)
    /// Held until the fade-in and MIN are over.
    case held(since: Instant, End)
  }

  package enum Event: Equatable, Sendable {
    case willAppear, didAppear, updated, touched, paused, resumed
    case willDisappear, didDisappear
  }

  /// An event, and the presentation as the event left it. One input can cause several.
  package struct Occurrence: Equatable, Sendable {
    package var event: Event
    package var presentation: Presentation
    /// When it was due, if time made it happen.
    package var due: Instant?
    package var superseded: Generation?
  }

  package internal(set) var request: Request
  package internal(set) var generation: Generation
  package internal(set) var phase: Phase
  package internal(set) var dismissal: Dismissal?
  package internal(set) var leases = Leases()
  /// The owner of what is shown; if there are holds, these decide instead.
  package internal(set) var owner: Owner
  package internal(set) var fraction: Double?
  package internal(set) var end: End?

  /// When it was requested, and when it became visible: MIN counts from these.
  var requestedAt: Instant
  var visibleSince: Instant
  /// MAX and the duration of messages count from here.
  var limitedSince: Instant
  var pausedAt: Instant?

  /// A SHOW on a level where nothing is shown.
  package init(
    _ request: Request, generation: Generation, owner: Owner, at now: Instant,
    _ emit: (Occurrence) -> Void
  ) {
    self.request = request
    self.generation = generation
    self.owner = owner
    phase = .waiting(until: now + request.grace)
    requestedAt = now
    visibleSince = now
    limitedSince = now
    if request.kind == .loading { leases.take(for: owner) }
    expire(at: now, byTime: false, emit)
  }

  // MARK: Inputs

  /// A new SHOW supersedes the current presentation.
  package mutating func show(
    _ request: Request, generation: Generation, owner: Owner, at now: Instant,
    _ emit: (Occurrence) -> Void
  ) {
    if pausedAt != nil { unfreeze(at: now) }
    if case .disappearing = phase { hide(due: nil, emit) }
    let old = self
    let isContinued = !old.isHidden

    // The holds of the old one end with it, except when one `loading` continues another.
    if request.kind != .loading || old.request.kind != .loading || !isContinued {
      leases.dropAll()
    }
    if request.kind == .loading { leases.take(for: owner) }
    self.request = request
    self.generation = generation
    self.owner = owner
    dismissal = nil
    end = nil
    fraction = request.kind == old.request.kind && isContinued ? old.fraction : nil

    switch old.phase {
    case .waiting:
      phase = .waiting(until: now + request.grace)
      requestedAt = now
      emit(occurrence(.updated, superseding: old.generation))
    case .appearing, .visible:
      limitedSince = now
      if request.kind != old.request.kind {
        requestedAt = now
        visibleSince = now
      }
      emit(occurrence(.updated, superseding: old.generation))
    case .disappearing, .hidden:
      requestedAt = now
      appear(at: now, due: nil, emit)
    }
    expire(at: now, byTime: false, emit)
  }

  /// Requests a dismissal, now or after `delay`. A dismissal that is held already stays as it is.
  package mutating func dismiss(
    _ end: End = .dismissed, delay: Interval? = nil, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    switch phase {
    case .disappearing, .hidden: return
    case .waiting, .appearing, .visible: break
    }
    if case .held = dismissal { return }
    // Nobody who held it counts on it any more: leases that outlived this would, after a new
    // SHOW, keep that one from ever being popped.
    leases.dropAll()
    if let delay, delay > .zero {
      dismissal = .delayed(until: frozen(now) + delay)
    } else {
      hold(end, since: frozen(now), at: frozen(now), due: nil, emit)
    }
    expire(at: now, byTime: false, emit)
  }

  /// Releases one hold; releasing the last one dismisses. Without holds, nothing happens.
  package mutating func pop(by owner: Owner, at now: Instant, _ emit: (Occurrence) -> Void) {
    guard leases.giveBack(by: owner), leases.isEmpty else { return }
    dismiss(at: now, emit)
  }

  /// `owner` has closed: its holds are released; a HUD without holds is dismissed.
  package mutating func ownerGone(
    _ gone: Owner, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    // A dismissal has dropped the holds, but until it happens the HUD still has its owner.
    guard leases.drop(gone) || owner == gone else { return }
    if let another = leases.owners.last {
      if owner == gone { owner = another }
      return
    }
    // Nobody is left who could resume it.
    resume(at: now, emit)
    dismiss(.ownerGone, at: now, emit)
  }

  /// `owner` has what it waited for: its holds are released.
  package mutating func giveBackAll(
    of owner: Owner, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    guard leases.drop(owner) else { return }
    guard let another = leases.owners.last else { return dismiss(at: now, emit) }
    if self.owner == owner { self.owner = another }
  }

  package mutating func tap(inside: Bool, at now: Instant, _ emit: (Occurrence) -> Void) {
    emit(occurrence(.touched))
    guard request.mask == .none, !inside else { return }
    switch phase {
    case .appearing, .visible: dismiss(.tapped, at: now, emit)
    case .waiting, .disappearing, .hidden: break
    }
  }

  /// Sets the progress and the text. A message's duration follows its text.
  package mutating func update(
    fraction: Double?, status: [UInt8]?, at now: Instant, _ emit: (Occurrence) -> Void
  ) {
    if let fraction { self.fraction = fraction }
    if let status { request.status = status }
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

  /// Time has passed to `now`.
  package mutating func expire(at now: Instant, _ emit: (Occurrence) -> Void) {
    expire(at: now, byTime: true, emit)
  }

  // MARK: What is so

  package var isHidden: Bool { phase == .hidden }
  package var isPaused: Bool { pausedAt != nil }

  package var isDismissing: Bool {
    if case .disappearing = phase { return true }
    return dismissal != nil
  }

  /// The next deadline; nil while paused or hidden.
  package var nextExpiry: Instant? { pausedAt == nil ? nextStep : nil }

  /// When it begins to disappear, as far as is known now; the fade-in still has to end for that.
  package var disappearsAt: Instant? {
    switch phase {
    case .visible: break
    case .waiting, .appearing, .disappearing, .hidden: return nil
    }
    switch dismissal {
    case .delayed(let until): return earliest(release(dismissedAt: until), limit)
    case .held(let since, _): return earliest(release(dismissedAt: since), limit)
    case nil: return limit
    }
  }

  /// The time left until `disappearsAt`; it is frozen while paused.
  package func remainingTime(at now: Instant) -> Interval? {
    disappearsAt.map { max($0 - frozen(now), .zero) }
  }

  // MARK: Steps

  private var nextStep: Instant? {
    let delayed: Instant? =
      if case .delayed(let until) = dismissal { until } else { nil }
    switch phase {
    case .waiting(let until), .appearing(let until):
      return earliest(until, delayed)
    case .visible:
      return earliest(earliest(heldUntil, delayed), limit)
    case .disappearing(let until):
      return until
    case .hidden:
      return nil
    }
  }

  /// When a held dismissal may happen.
  private var heldUntil: Instant? {
    guard case .held(let since, _) = dismissal else { return nil }
    return release(dismissedAt: since)
  }

  /// When MIN is over for a dismissal at `moment`.
  private func release(dismissedAt moment: Instant) -> Instant {
    let from =
      switch request.minimumFrom {
      case .visible: visibleSince
      case .request: requestedAt
      case .stop: moment
      }
    return max(moment, from + request.minimum)
  }

  private var limit: Instant? { request.longest.map { limitedSince + $0 } }

  private mutating func expire(at now: Instant, byTime: Bool, _ emit: (Occurrence) -> Void) {
    guard pausedAt == nil else { return }
    while let step = nextStep, step <= now {
      let due: Instant? = byTime ? step : nil
      if case .delayed(let until) = dismissal, until <= step {
        hold(.dismissed, since: until, at: now, due: due, emit)
        continue
      }
      switch phase {
      case .waiting:
        appear(at: now, due: due, emit)
      case .appearing:
        phase = .visible
        visibleSince = now
        limitedSince = now
        emit(occurrence(.didAppear, due: due))
      case .visible:
        disappear(step, at: now, due: due, emit)
      case .disappearing:
        hide(due: due, emit)
      case .hidden:
        return
      }
    }
  }

  private mutating func appear(at now: Instant, due: Instant?, _ emit: (Occurrence) -> Void) {
    phase = .appearing(until: now + request.fadeIn)
    emit(occurrence(.willAppear, due: due))
  }

  private mutating func disappear(
    _ step: Instant, at now: Instant, due: Instant?, _ emit: (Occurrence) -> Void
  ) {
    // Where MAX and the held dismissal meet, the dismissal is the reason.
    if case .held(_, let reason) = dismissal, let heldUntil, heldUntil <= step {
      end = reason
    } else {
      end = .timedOut
    }
    leases.dropAll()
    phase = .disappearing(until: now + request.fadeOut)
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
    switch request.early {
    case .skip:
      phase = .hidden
      dismissal = nil
      self.end = .neverShown
      emit(occurrence(.updated, due: due))
    case .show:
      appear(at: now, due: due, emit)
    }
  }

  private func occurrence(
    _ event: Event, due: Instant? = nil, superseding old: Generation? = nil
  ) -> Occurrence {
    Occurrence(event: event, presentation: self, due: due, superseded: old)
  }

  // MARK: Pausing

  /// The moment the machine lives in: it is frozen while paused.
  private func frozen(_ now: Instant) -> Instant { pausedAt ?? now }

  private mutating func unfreeze(at now: Instant) {
    guard let since = pausedAt else { return }
    pausedAt = nil
    let shift = now - since
    requestedAt = requestedAt + shift
    visibleSince = visibleSince + shift
    limitedSince = limitedSince + shift
    switch phase {
    case .waiting(let until): phase = .waiting(until: until + shift)
    case .appearing(let until): phase = .appearing(until: until + shift)
    case .disappearing(let until): phase = .disappearing(until: until + shift)
    case .visible, .hidden: break
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
