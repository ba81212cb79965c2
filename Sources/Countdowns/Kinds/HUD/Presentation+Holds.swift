extension Presentation {
  /// What one SHOW wished for: a hold, as long as it is one of several.
  package struct Show: Equatable, Sendable {
    package var request: Request
    package var generation: Generation
    package var owner: Owner
    package var fraction: Double?
    /// MAX and the duration of a message count from here: the SHOW or did-appear, whichever is
    /// later.
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

  /// Which hold is released: of those that match, the newest of the client, else the newest without
  /// an owner, else the newest.
  package struct Pop: Sendable {
    package var owner: Owner
    package var generation: Generation?
    /// Of the request that the hold was taken for.
    package var path: [UInt8]?

    package init(by owner: Owner, generation: Generation? = nil, path: [UInt8]? = nil) {
      self.owner = owner
      self.generation = generation
      self.path = path
    }

    /// 0 is released first; nil if it does not match.
    fileprivate func rank(_ show: Show) -> Int? {
      if let generation, generation != show.generation { return nil }
      if let path, path != show.request.path { return nil }
      return show.owner == owner ? 0 : show.owner == .none ? 1 : 2
    }
  }

  /// What is shown: the newest hold, a message, or what was dismissed.
  package var shown: Show { shows[shows.count - 1] }
  /// Oldest first; empty for messages and after a dismissal.
  package var holds: [Show] { isHeld ? shows : [] }
  package var holdCount: Int { isHeld ? shows.count : 0 }

  /// The strictest of all holds.
  package var mask: Mask {
    var mask = shown.request.mask
    for show in shows.dropLast() { mask = max(mask, show.request.mask) }
    return mask
  }

  /// Whether any of it survives restarts.
  package var isDurable: Bool { shows.contains { $0.request.isDurable } }

  /// The hold that is released, and its rank among those of all levels.
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

  /// The limit of a hold that comes first.
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

  /// What of it survives restarts: the holds that were taken with DURABLE; nil if nothing does.
  package var durable: Presentation? {
    guard isDurable else { return nil }
    var durable = self
    durable.shows.removeAll { !$0.request.isDurable }
    durable.generation = durable.shown.generation
    return durable
  }

  // MARK: Releasing

  enum Released { case none, some, wasLast }

  /// Releases the holds of owners, but not the last ones: they, and what is owned without a hold,
  /// end with a dismissal.
  mutating func release(all owners: Set<Owner>, _ emit: (Occurrence) -> Void) -> Released {
    let count = shows.count { owners.contains($0.owner) }
    if count == 0 { return .none }
    if count == shows.count { return .wasLast }
    shows.removeAll { owners.contains($0.owner) }
    emit(Occurrence(event: .updated, presentation: self))
    return .some
  }

  /// What was shown stays as it is until it disappears.
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
