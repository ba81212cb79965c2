import Countdowns

/// The epoch of a partition, as the script `open` keeps it.
package struct ModelEpoch: Equatable {
  package private(set) var id: [UInt8]
  /// The number of the newest entry of the stream.
  package var number: Int64
  package private(set) var refusedUntil: Int64 = 0
  private let made: Int64
  private var isAccepted = false

  /// Opens a partition that has this epoch, or none. Returns nil if nobody knows it.
  package static func open(
    _ old: ModelEpoch?, _ opening: FleetOpening, at now: Int64
  ) -> ModelEpoch? {
    guard old != nil || !opening.known.isEmpty || opening.beginning != nil else { return nil }
    var epoch = old ?? ModelEpoch(id: opening.new, number: now, made: now)
    if opening.beginning == .acceptLoss {
      (epoch.refusedUntil, epoch.isAccepted) = (0, true)
    } else if !opening.known.isEmpty, opening.known != epoch.id, !epoch.isAccepted {
      epoch.refusedUntil = max(
        epoch.refusedUntil, epoch.made + opening.refusal, opening.keeping?.blockedUntil ?? 0)
    }
    return epoch
  }

  /// The epoch of a fleet that was begun.
  package init(begunAt now: Int64) { self.init(id: Array("begun".utf8), number: now, made: now) }

  private init(id: [UInt8], number: Int64, made: Int64) {
    (self.id, self.number, self.made) = (id, number, made)
  }
}
