import Countdowns

extension HUDStay {
  /// A new SHOW in its place.
  mutating func supersede(
    _ request: Presentation.Request, _ generation: Generation, _ owner: Owner, at now: Int64,
    _ say: (Said) -> Void
  ) {
    if pausedAt != nil { unpause(now) }
    if goes != nil {
      isGone = true
      say(said(.didDisappear))
      isGone = false
    }
    let old = self
    let moment = own(now)
    let goesOn = goes == nil
    if request.kind != .loading || old.request.kind != .loading { leases = [] }
    if request.kind == .loading { leases.append(owner) }
    self.request = request
    self.generation = generation
    self.owner = owner
    isOrphan = false
    dismissal = nil
    isDismissed = false
    end = nil
    if !goesOn || request.kind != old.request.kind { fraction = nil }

    if !goesOn {
      asked = moment
      goes = nil
      seen = nil
      appears = moment
      fadeIn = request.fadeIn.microseconds
      say(said(.willAppear))
    } else {
      if appears == nil {
        asked = moment
        graceEnd = moment + request.grace.microseconds
      } else {
        maximumFrom = moment
        if request.kind != old.request.kind {
          asked = moment
          minimumFrom = moment
        }
      }
      say(said(.updated, superseded: old.generation))
    }
    settle(now, byTime: false, say)
  }

  mutating func dismiss(
    _ end: Presentation.End, after delay: Int64 = 0, at now: Int64, _ say: (Said) -> Void
  ) {
    // What has been dismissed stays so; only a delay that is still running can be changed.
    if goes != nil || isGone { return }
    if let dismissal, dismissal.moment <= own(now) { return }
    leases = []
    dismissal = (own(now) + delay, end)
    isDismissed = delay == 0
    decideInGrace(say)
    settle(now, byTime: false, say)
  }

  mutating func pop(by owner: Owner, at now: Int64, _ say: (Said) -> Void) {
    let index =
      leases.lastIndex(of: owner) ?? leases.lastIndex(of: .none)
      ?? leases.first.flatMap { leases.lastIndex(of: $0) }
    guard let index else { return }
    leases.remove(at: index)
    if leases.isEmpty { dismiss(.dismissed, at: now, say) }
  }

  mutating func lose(_ gone: Owner, at now: Int64, _ say: (Said) -> Void) {
    let had = leases.count
    leases.removeAll { $0 == gone }
    guard leases.count < had || owner == gone else { return }
    if !leases.isEmpty {
      if owner == gone { owner = newestHolder }
      return
    }
    isOrphan = owner == gone
    resume(at: now, say)
    // If it was to appear meanwhile and nobody has noticed, it does not appear for who is gone.
    if appears == nil { graceEnd = max(graceEnd, own(now)) }
    dismiss(.ownerGone, at: now, say)
  }

  /// Of those who hold leases, who took the first of theirs last.
  private var newestHolder: Owner {
    leases.enumerated().last { index, holder in leases.firstIndex(of: holder) == index }!.element
  }

  mutating func tap(inside: Bool, at now: Int64, _ say: (Said) -> Void) {
    say(said(.touched))
    if request.mask == .none, !inside, appears != nil { dismiss(.tapped, at: now, say) }
  }

  mutating func update(
    _ fraction: Double?, _ status: [UInt8]?, at now: Int64, _ say: (Said) -> Void
  ) {
    self.fraction = fraction ?? self.fraction
    request.status = status ?? request.status
    say(said(.updated))
    settle(now, byTime: false, say)
  }

  mutating func pause(at now: Int64, _ say: (Said) -> Void) {
    if pausedAt != nil { return }
    pausedAt = own(now)
    say(said(.paused))
  }

  mutating func resume(at now: Int64, _ say: (Said) -> Void) {
    if pausedAt == nil { return }
    unpause(now)
    say(said(.resumed))
    settle(now, byTime: false, say)
  }

  private mutating func unpause(_ now: Int64) {
    behind = now - pausedAt!
    pausedAt = nil
  }
}
