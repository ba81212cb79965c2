import HeapModule

/// Virtual time, and the actions scheduled in it. Actions due at the same moment run in the order
/// in which they were scheduled.
final class Agenda {
  private struct Item: Comparable {
    let due: Int64
    let order: Int
    let body: () -> Void

    static func < (a: Item, b: Item) -> Bool { (a.due, a.order) < (b.due, b.order) }
    static func == (a: Item, b: Item) -> Bool { a.order == b.order }
  }

  /// The current time, in microseconds.
  private(set) var now: Int64 = 0
  private var items = Heap<Item>()
  private var lastOrder = 0

  func at(_ due: Int64, _ body: @escaping () -> Void) {
    lastOrder += 1
    items.insert(Item(due: max(due, now), order: lastOrder, body: body))
  }

  func after(_ delay: Int64, _ body: @escaping () -> Void) { at(now + delay, body) }

  /// Runs the actions that are due until `end`, or until `isOver`.
  func run(until end: Int64, unless isOver: () -> Bool = { false }) {
    while let next = items.min, next.due <= end, !isOver() {
      now = next.due
      items.removeMin().body()
    }
    if !isOver() { now = max(now, end) }
  }
}
