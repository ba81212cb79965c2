/// The holds of a loading HUD: a count for each owner (an activity count that knows its owners).
package struct Leases: Equatable, Sendable {
  private var held: [(owner: Owner, count: Int64)] = []

  package init() {}

  /// The number of holds of each owner.
  package init(_ counts: [(owner: Owner, count: Int64)]) { held = counts.filter { $0.count > 0 } }

  package func count(of owner: Owner) -> Int64 {
    held.first { $0.owner == owner }?.count ?? 0
  }

  package var count: Int64 { held.reduce(0) { $0 + $1.count } }
  package var isEmpty: Bool { held.isEmpty }
  package var owners: [Owner] { held.map(\.owner) }

  package mutating func take(for owner: Owner) {
    if let index = held.firstIndex(where: { $0.owner == owner }) {
      held[index].count += 1
    } else {
      held.append((owner, 1))
    }
  }

  /// Releases one hold: of `owner` if it has any, else one without an owner, else the oldest.
  /// False when there is none.
  package mutating func giveBack(by owner: Owner) -> Bool {
    let index =
      held.firstIndex { $0.owner == owner } ?? held.firstIndex { $0.owner == .none }
      ?? held.indices.first
    guard let index else { return false }
    held[index].count -= 1
    if held[index].count == 0 { held.remove(at: index) }
    return true
  }

  /// Releases all holds of an owner that has closed. False when it had none.
  package mutating func drop(_ owner: Owner) -> Bool {
    guard let index = held.firstIndex(where: { $0.owner == owner }) else { return false }
    held.remove(at: index)
    return true
  }

  package mutating func dropAll() { held.removeAll() }

  package static func == (a: Leases, b: Leases) -> Bool {
    a.held.elementsEqual(b.held) { $0 == $1 }
  }
}
