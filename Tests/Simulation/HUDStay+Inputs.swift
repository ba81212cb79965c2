import Countdowns

extension HUDStay {
  /// Applies a new SHOW: one more hold, or a replacement of everything.
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
    let takesHold = [.loading, .progress].contains(request.kind)
    let isOneMore = takesHold && isHeld
    let isSameKind = request.kind == front.request.kind
    var wish = Wish(request: request, generation: generation, owner: owner, since: moment)
    if goesOn, isSameKind { wish.fraction = front.fraction }
    wishes = isOneMore ? wishes + [wish] : [wish]
    isHeld = takesHold
    isOrphan = false
    self.generation = generation
    dismissal = nil
    isDismissed = false
    end = nil

    if !goesOn {
      asked = moment
      goes = nil
      seen = nil
      appears = moment
      appearedFrom = moment
      fadeIn = request.fadeIn.microseconds
      say(said(.willAppear))
    } else {
      if appears == nil {
        if !isOneMore { asked = moment }
      } else if !isSameKind {
        asked = moment
        appearedFrom = moment
        visibleFrom = moment
      }
      say(said(.updated, superseded: old.generation))
    }
    settle(now, byTime: false, say)
  }

  mutating func dismiss(
    _ end: Presentation.End, after delay: Int64 = 0, at now: Int64, _ say: (Said) -> Void
  ) {
    // A dismissal stays; only a delay that is still running can be changed.
    if goes != nil || isGone { return }
    if let dismissal, isDismissed || dismissal.moment <= own(now) { return }
    letGo()
    dismissal = (own(now) + delay, end)
    isDismissed = delay == 0
    decideInGrace(say)
    settle(now, byTime: false, say)
  }

  /// Returns the hold that POP releases, and its distance: 0 if own, 1 without an owner, else 2.
  func hold(
    for owner: Owner, _ generation: Generation?, _ path: [UInt8]?
  ) -> (index: Int, distance: Int)? {
    let matching = holds.indices.filter {
      (generation == nil || generation == wishes[$0].generation)
        && (path == nil || path == wishes[$0].request.path)
    }
    let own = matching.last { wishes[$0].owner == owner }
    let unowned = matching.last { wishes[$0].owner == .none }
    return own.map { ($0, 0) } ?? unowned.map { ($0, 1) } ?? matching.last.map { ($0, 2) }
  }

  mutating func pop(
    for owner: Owner, _ generation: Generation?, _ path: [UInt8]?, at now: Int64,
    _ say: (Said) -> Void
  ) {
    guard let (index, _) = hold(for: owner, generation, path) else { return }
    if wishes.count == 1 { return dismiss(.dismissed, at: now, say) }
    wishes.remove(at: index)
    say(said(.updated))
  }

  mutating func lose(_ gone: [Owner], at now: Int64, _ say: (Said) -> Void) {
    let left = wishes.filter { !gone.contains($0.owner) }
    if left.count == wishes.count { return }
    if !left.isEmpty {
      wishes = left
      return say(said(.updated))
    }
    letGo()
    isOrphan = true
    resume(at: now, say)
    // A DELAY whose end has not been noticed is cut short.
    if !isDismissed { dismissal = nil }
    // If the end of its grace has not been noticed, it does not appear for an owner that has ended.
    if appears == nil {
      let grace = wishes[0].request.grace.microseconds
      wishes[0].request.grace = .init(microseconds: max(grace, own(now) - asked))
    }
    dismiss(.ownerGone, at: now, say)
  }

  mutating func tap(inside: Bool, at now: Int64, _ say: (Said) -> Void) {
    say(said(.touched))
    if mask == .none, !inside, appears != nil { dismiss(.tapped, at: now, say) }
  }

  mutating func update(
    _ generation: Generation?, _ fraction: Double?, _ status: [UInt8]?, at now: Int64,
    _ say: (Said) -> Void
  ) {
    let index = wishes.firstIndex { $0.generation == generation } ?? wishes.count - 1
    wishes[index].fraction = fraction ?? wishes[index].fraction
    wishes[index].request.status = status ?? wishes[index].request.status
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
