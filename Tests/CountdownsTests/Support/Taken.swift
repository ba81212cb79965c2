import Countdowns

extension Engine {
  /// Takes the changes of a batch, and returns them as `timer 0 t` or `timer 0 gone`.
  func takenChanges() -> [String] {
    let batch = ChangeWriter(offset: 0)
    takeChanges(into: batch)
    var taken: [String] = []
    let isWhole = ChangeEntry.forEach(of: batch.bytes[...]) {
      switch $0 {
      case .current(let kind, let place, let bytes):
        taken.append("\(kind.name) \(place) " + String(decoding: key(kind, bytes), as: UTF8.self))
      case .gone(let kind, let place): taken.append("\(kind.name) \(place) gone")
      case .events, .clocks: break
      }
    }
    precondition(isWhole, "what was written can be read")
    return taken
  }

  private func key(_ kind: EntityKind, _ bytes: ArraySlice<UInt8>) -> [UInt8] {
    switch kind {
    case .countdown: DurableCountdown(bytes: Array(bytes), offset: 0)!.key
    case .timer: DurableTimer(bytes: Array(bytes), offset: 0)!.key
    case .hud: DurableHUD(bytes: Array(bytes), offset: 0)!.key
    default: DurableGuard(bytes: Array(bytes), offset: 0)!.key
    }
  }
}
