extension Configuration {
  /// Puts back what only counts at the start: where it listens, where its state is, and with whom
  /// it shares. Returns the names of the settings that would have changed.
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

  /// The settings that are not what they were in `old`, in the order of their names; nil where one
  /// has no such setting, as where the operator chooses the names.
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
