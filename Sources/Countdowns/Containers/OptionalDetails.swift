/// A part that most values of a type do not have. It is allocated separately, so that values
/// without it are cheap to pass on.
struct OptionalDetails<Value> {
  /// Changed only while one value has it, and never while it is read.
  fileprivate final class Box {
    @exclusivity(unchecked) var value: Value
    init(_ value: Value) { unsafe self.value = value }
  }

  private var box: Box?

  init() {}

  var isNone: Bool { box == nil }

  var value: Value? {
    @inline(__always) get { unsafe box?.value }
    set { box = newValue.map(Box.init) }
  }

  /// Reads the details in their place; nil if there are none. A copy of them would retain all that
  /// they have. Where most values have none, asking `isNone` first is cheaper.
  @inline(__always)
  func read<R>(_ body: (borrowing Value) -> R) -> R? {
    guard let box else { return nil }
    return unsafe body(box.value)
  }

  /// Changes the details, which must exist, in their place.
  @inline(__always)
  mutating func change<R>(_ body: (inout Value) -> R) -> R {
    precondition(box != nil, "there are no details")
    if !isKnownUniquelyReferenced(&box) { box = unsafe Box(box!.value) }
    return unsafe body(&box!.value)
  }
}

extension OptionalDetails: Sendable where Value: Sendable {}
extension OptionalDetails.Box: @unchecked Sendable where Value: Sendable {}

extension OptionalDetails: Equatable where Value: Equatable {
  static func == (a: OptionalDetails, b: OptionalDetails) -> Bool { a.value == b.value }
}
