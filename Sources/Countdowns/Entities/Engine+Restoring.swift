extension Engine {
  /// Whether it is neither empty nor too long.
  package static func canBeKey(_ key: [UInt8]) -> Bool {
    !key.isEmpty && key.count <= KeyArena.longestKey
  }

  /// Whether a key and a place are as they can be, and nobody else's. In a file that was damaged they may
  /// be anything.
  package func canRestore(_ kind: EntityKind, _ key: [UInt8], at index: UInt32) -> Bool {
    guard Self.canBeKey(key), index < KeyIndex.mostEntries else { return false }
    switch kind {
    case .countdown: return !countdowns.contains(index) && countdowns.find(key) == nil
    case .timer: return !timers.contains(index) && timers.find(key) == nil
    case .hud: return !huds.contains(index) && huds.find(key) == nil
    case .throttle, .once, .gate, .debounce:
      return !guards[kind].contains(index) && guards[kind].find(key) == nil
    case .scope, .nav, .page: return false
    }
  }
}
