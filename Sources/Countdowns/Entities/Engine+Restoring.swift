extension Engine {
  /// Returns whether a key is neither empty nor too long.
  package static func canBeKey(_ key: [UInt8]) -> Bool {
    !key.isEmpty && key.count <= KeyArena.longestKey
  }

  /// Returns whether a key and a place are valid and not in use. In a damaged file they may be
  /// anything.
  package func canRestore(_ kind: EntityKind, _ key: [UInt8], at index: UInt32) -> Bool {
    guard Self.canBeKey(key), index < KeyIndex.mostEntries else { return false }
    return kind.canBeDurable && kind.behavior.canRestore(key, at: index, in: self)
  }
}
