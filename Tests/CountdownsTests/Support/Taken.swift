@testable import Countdowns

extension Engine {
  /// Takes the changes of a batch, and returns them as `timer 0 t` or `timer 0 gone`.
  func takenChanges() -> [String] {
    let batch = ChangeWriter(offset: 0)
    takeChanges(into: batch)
    var taken: [String] = []
    let isWhole = ChangeEntry.forEach(of: batch.bytes[...]) {
      switch $0 {
      case .current(let kind, let place, let bytes):
        let key = EntityRecord.key(of: bytes.span)!
        taken.append(
          "\(kind.name) \(place) "
            + String(decoding: bytes.dropFirst(key.lowerBound).prefix(key.count), as: UTF8.self))
      case .gone(let kind, let place): taken.append("\(kind.name) \(place) gone")
      case .events, .clocks: break
      }
    }
    precondition(isWhole, "what was written can be read")
    return taken
  }
}
