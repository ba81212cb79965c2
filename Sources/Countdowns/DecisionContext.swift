/// For whom an engine decides.
enum DecisionContext {
  /// For this daemon alone, about all its entities.
  case local
  /// A fleet decides about some kinds, of whose entities the engine has copies.
  case copies(Copies)
  /// For a fleet, about one entity at a time. No entity has an owner: owners are on one host.
  case workbench(SharedLimits?)

  /// Kinds whose entities are copies of shared ones: only the fleet changes them.
  var copiedKinds: KindSet { copies?.kinds ?? KindSet() }
  var copies: Copies? { if case .copies(let copies) = self { copies } else { nil } }

  var isWorkbench: Bool { if case .workbench = self { true } else { false } }
  /// The limits of the shared countdown that is decided about; nil if they are the engine's own.
  var sharedLimits: SharedLimits? { if case .workbench(let limits) = self { limits } else { nil } }

  final class Copies {
    let kinds: KindSet
    /// Whether the event log has events of shared entities.
    let areLogged: Bool
    /// The newest event of a shared entity that the event log lacks.
    var unloggedThrough: Int64 = 0
    /// How many stored entities the fleet hides, as it shares their kind.
    var hiddenCount = 0
    /// Called when something is due for a copy.
    let isDue: (EntityKind, [UInt8]) -> Void
    /// Returns the position up to which a snapshot of a shared entity includes the events.
    let position: (EntityKind, [UInt8]) -> String?

    init(
      of kinds: KindSet, areLogged: Bool, isDue: @escaping (EntityKind, [UInt8]) -> Void,
      position: @escaping (EntityKind, [UInt8]) -> String?
    ) {
      (self.kinds, self.areLogged) = (kinds, areLogged)
      (self.isDue, self.position) = (isDue, position)
    }
  }
}

extension Engine {
  /// Leaves the decisions about some kinds to a fleet.
  func decide(withCopies copies: DecisionContext.Copies) {
    context = .copies(copies)
    changes.copies = copies.kinds
  }

  /// Decides about entities that are stored whole, elsewhere, and whose owners are elsewhere.
  package func decideForFleet(_ isOwnerThere: @escaping (UInt64) -> Bool) {
    noteChanges()
    changes.areAllKept = true
    context = .workbench(nil)
    connections.isOwnerThere = isOwnerThere
  }

  /// How many stored entities a fleet hides, as it shares their kind.
  package var hiddenCount: Int { context.copies?.hiddenCount ?? 0 }
}
