/// Names an entity for as long as it exists, in 64 bits: the payload of a timer.
struct EntityRef: Hashable {
  var kind: EntityKind
  var index: UInt32

  init(_ kind: EntityKind, _ index: UInt32) {
    self.kind = kind
    self.index = index
  }

  init(payload: UInt64) {
    kind = EntityKind(rawValue: UInt8(truncatingIfNeeded: payload >> 32))!
    index = UInt32(truncatingIfNeeded: payload)
  }

  var payload: UInt64 { UInt64(kind.rawValue) << 32 | UInt64(index) }
}
