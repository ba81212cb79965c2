extension Configuration {
  /// Puts back what only counts at the start: where it listens and where its state is. Returns the
  /// names of the settings that would have changed.
  package mutating func keepWhatNeedsRestart(from old: Configuration) -> [String] {
    let isFixed = { (name: String) in
      name.hasPrefix("socket.")
        || ["state-directory", "durability", "events.keep"].contains(name)
    }
    let changed = zip(
      settings.filter { isFixed($0.name) }, old.settings.filter { isFixed($0.name) }
    )
    .filter { $0.value != $1.value }
    socket = old.socket
    stateDirectory = old.stateDirectory
    durability = old.durability
    events = old.events
    return changed.map(\.0.name)
  }
}
