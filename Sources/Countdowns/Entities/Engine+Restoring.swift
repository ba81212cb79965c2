extension Engine {
  /// Whether it is neither empty nor too long.
  package static func canBeKey(_ key: [UInt8]) -> Bool {
    !key.isEmpty && key.count <= KeyArena.longestKey
  }

  /// Whether a key and a place are as they can be, and nobody else's. In a file that was damaged
  /// they may be anything.
  package func canRestore(_ kind: EntityKind, _ key: [UInt8], at index: UInt32) -> Bool {
    guard Self.canBeKey(key), index < KeyIndex.mostEntries else { return false }
    return kind.canBeDurable && kind.behavior.canRestore(key, at: index, in: self)
  }
}
