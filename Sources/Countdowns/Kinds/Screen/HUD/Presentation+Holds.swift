extension Presentation {
  /// One SHOW with its options and progress: a hold, unless it is a message or was dismissed.
  package struct Show: Equatable, Sendable {
    package var request: Request
    package var generation: Generation
    package var owner: Owner
    package var fraction: Double?
    /// The start of MAX and of a message's duration: the SHOW or did-appear, whichever is later.
    package var since: Instant

    package init(_ request: Request, generation: Generation, owner: Owner, since: Instant) {
      self.request = request
      self.generation = generation
      self.owner = owner
      self.since = since
    }

    /// When MAX is over, or a message has been read; nil without a limit.
    var limit: Instant? { request.longest.map { since + $0 } }
  }

  /// Selects the hold to release: of the matching holds the newest of the client, else the newest
  /// without an owner, else the newest.
  package struct Pop: Sendable {
    package var owner: Owner
    package var generation: Generation?
    /// The path of the request for which the hold was taken; nil for any.
    package var path: [UInt8]?

    package init(by owner: Owner, generation: Generation? = nil, path: [UInt8]? = nil) {
      self.owner = owner
      self.generation = generation
      self.path = path
    }

    /// Returns the rank of a hold, or nil if it does not match. Rank 0 is released first.
    fileprivate func rank(_ show: Show) -> Int? {
      if let generation, generation != show.generation { return nil }
      if let path, path != show.request.path { return nil }
      return show.owner == owner ? 0 : show.owner == .none ? 1 : 2
    }
  }

  /// The show on display: the newest hold, the message, or the show that was dismissed.
  package var shown: Show { shows[shows.count - 1] }
  /// The holds, oldest first; empty for messages and after a dismissal.
  package var holds: [Show] { isHeld ? shows : [] }
  package var holdCount: Int { isHeld ? shows.count : 0 }

  /// The strictest mask of all holds.
  package var mask: Mask {
    var mask = shown.request.mask
    for show in shows.dropLast() { mask = max(mask, show.request.mask) }
    return mask
  }

  /// Whether any hold or message survives restarts.
  package var isDurable: Bool { shows.contains { $0.request.isDurable } }

  /// Returns the hold that `pop` releases, with its rank, which is comparable across levels.
  package func hold(for pop: Pop) -> (index: Int, rank: Int)? {
    guard isHeld else { return nil }
    var found: (index: Int, rank: Int)?
    for index in shows.indices.reversed() {
      if let rank = pop.rank(shows[index]), rank < found?.rank ?? .max { found = (index, rank) }
    }
    return found
  }

  func index(of generation: Generation) -> Int? {
    shows.firstIndex { $0.generation == generation }
  }

  /// The earliest limit, and the index of its hold.
  var firstLimit: (moment: Instant, index: Int)? {
    var first: (moment: Instant, index: Int)?
    for index in shows.indices {
      guard let limit = shows[index].limit else { continue }
      if first.map({ limit < $0.moment }) ?? true { first = (limit, index) }
    }
    return first
  }

  /// When all holds have reached their limits; nil if one has none.
  var lastLimit: Instant? {
    var last = shown.limit
    for show in shows.dropLast() {
      guard let known = last, let limit = show.limit else { return nil }
      last = max(known, limit)
    }
    return last
  }

  /// The part that survives restarts: the holds or message with DURABLE; nil if there are none.
  package var durable: Presentation? {
    guard isDurable else { return nil }
    var durable = self
    durable.shows.removeAll { !$0.request.isDurable }
    // After a dismissal, the show that is left may have been a hold of a client.
    for index in durable.shows.indices { durable.shows[index].owner = .none }
    durable.generation = durable.shown.generation
    return durable
  }

  // MARK: Releasing

  enum Released { case none, some, wasLast }

  /// Releases the holds of `owners`. If nothing else would be left, changes nothing and returns
  /// `wasLast`: the caller dismisses the HUD.
  mutating func release(all owners: Set<Owner>, _ emit: (Occurrence) -> Void) -> Released {
    let count = shows.count { owners.contains($0.owner) }
    if count == 0 { return .none }
    if count == shows.count { return .wasLast }
    shows.removeAll { owners.contains($0.owner) }
    emit(Occurrence(event: .updated, presentation: self))
    return .some
  }

  /// Replaces all holds by one show, which keeps their combined mask, grace and durability.
  mutating func dropHolds() {
    guard isHeld else { return }
    isHeld = false
    guard shows.count > 1 else { return }
    var last = shown
    last.request.mask = mask
    last.request.isDurable = isDurable
    last.request.grace = graceEnd - requestedAt
    shows = [last]
  }
}
