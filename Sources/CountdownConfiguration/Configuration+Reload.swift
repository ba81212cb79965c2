extension Configuration {
  /// Restores the settings that only take effect at a start, such as those of the socket, the state
  /// and the fleet. Returns the names of the settings that would have changed.
  package mutating func keepWhatNeedsRestart(from old: Configuration) -> [String] {
    let isFixed = { (name: String) in
      name.hasPrefix("socket.") || name.hasPrefix("fleet.")
        || ["state-directory", "durability", "events.keep", "log.segment-size"].contains(name)
    }
    let changed = zip(
      settings.filter { isFixed($0.name) }, old.settings.filter { isFixed($0.name) }
    )
    .filter { $0.value != $1.value }
    socket = old.socket
    stateDirectory = old.stateDirectory
    durability = old.durability
    events = old.events
    log = old.log
    fleet = old.fleet
    return changed.map(\.0.name)
  }

  /// Returns the settings that differ from `old`, sorted by name. A value is nil if one side has no
  /// such setting, which happens where the operator chooses the names.
  package func changes(
    from old: Configuration
  ) -> [(name: String, old: String?, new: String?)] {
    let before = Dictionary(uniqueKeysWithValues: old.settings.map { ($0.name, $0.value) })
    let after = Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.value) })
    return Set(before.keys).union(after.keys).sorted()
      .filter { before[$0] != after[$0] }
      .map { ($0, before[$0], after[$0]) }
  }
}
