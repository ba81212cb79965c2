extension Presentation {
  /// All that a presentation is, for whoever keeps it. Whoever owned it or a lease of it ends with
  /// the daemon; so of owners it says only how much they held.
  package struct Memory: Equatable, Sendable {
    package var request: Request
    package var generation: Generation
    package var phase: Phase
    package var dismissal: Dismissal?
    package var end: End?
    package var fraction: Double?
    /// Holds without an owner.
    package var unownedLeases: Int64 = 0
    /// Holds that had an owner.
    package var ownedLeases: Int64 = 0
    /// As in `Presentation`; `pausedAt` is nil while time runs.
    package var requestedAt: Instant
    package var visibleSince: Instant
    package var limitedSince: Instant
    package var pausedAt: Instant?

    package init(
      _ request: Request, generation: Generation, phase: Phase, requestedAt: Instant,
      visibleSince: Instant, limitedSince: Instant
    ) {
      self.request = request
      self.generation = generation
      self.phase = phase
      self.requestedAt = requestedAt
      self.visibleSince = visibleSince
      self.limitedSince = limitedSince
    }
  }

  package var memory: Memory {
    var memory = Memory(
      request, generation: generation, phase: phase, requestedAt: requestedAt,
      visibleSince: visibleSince, limitedSince: limitedSince)
    memory.dismissal = dismissal
    memory.end = end
    memory.fraction = fraction
    memory.unownedLeases = leases.count(of: .none)
    memory.ownedLeases = leases.count - memory.unownedLeases
    memory.pausedAt = pausedAt
    return memory
  }

  /// Restores it. What has fallen due since happens when `expire` is called.
  ///
  /// - Parameter departed: receives the holds that had an owner, and is to be closed.
  package init(_ memory: Memory, departed: Owner) {
    request = memory.request
    generation = memory.generation
    phase = memory.phase
    dismissal = memory.dismissal
    leases = Leases([(.none, memory.unownedLeases), (departed, memory.ownedLeases)])
    owner = .none
    fraction = memory.fraction
    end = memory.end
    requestedAt = memory.requestedAt
    visibleSince = memory.visibleSince
    limitedSince = memory.limitedSince
    pausedAt = memory.pausedAt
  }
}
