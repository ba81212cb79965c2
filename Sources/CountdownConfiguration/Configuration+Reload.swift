import Countdowns

extension Configuration {
  /// Restores the settings that take effect at a start only. Returns the names of those that would
  /// have changed.
  package mutating func keepWhatNeedsRestart(from old: Configuration) -> [String] {
    var changed: [String] = []
    for setting in Setting.all where setting.needsRestart {
      let (new, kept) = (setting.list(self), setting.list(old))
      if !new.elementsEqual(kept, by: ==) { changed.append(setting.name) }
      setting.copy(&self, old)
    }
    return changed
  }

  /// Returns the settings that differ from `old`, sorted by name. A value is nil if one side has no
  /// such setting, which happens where the operator chooses the names.
  package func changes(from old: Configuration) -> [ChangedSetting] {
    let before = Dictionary(uniqueKeysWithValues: old.settings.map { ($0.name, $0.value) })
    let after = Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.value) })
    return Set(before.keys).union(after.keys).sorted()
      .filter { before[$0] != after[$0] }
      .map { ChangedSetting(name: $0, old: before[$0], new: after[$0]) }
  }
}
