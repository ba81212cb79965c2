/// A set of kinds, as bits: it is consulted for each timer that fires.
package struct KindSet: Equatable, Sendable {
  private var bits: UInt16 = 0

  package init(_ kinds: some Sequence<EntityKind> = []) {
    for kind in kinds { bits |= 1 << kind.rawValue }
  }

  @inline(__always)
  package func contains(_ kind: EntityKind) -> Bool { bits & 1 << kind.rawValue != 0 }
}
