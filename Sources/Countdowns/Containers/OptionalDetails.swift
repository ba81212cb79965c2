/// A part that most values of a type do not have. It is allocated separately, so that values
/// without it are cheap to pass on.
struct OptionalDetails<Value> {
  fileprivate indirect enum Box {
    case some(Value)
  }

  private var box: Box?

  init() {}

  var isNone: Bool { box == nil }

  var value: Value? {
    get {
      switch box {
      case .some(.some(let value)): value
      case nil: nil
      }
    }
    set { box = newValue.map { Box.some($0) } }
  }
}

extension OptionalDetails: Sendable where Value: Sendable {}
extension OptionalDetails.Box: Sendable where Value: Sendable {}

extension OptionalDetails: Equatable where Value: Equatable {
  static func == (a: OptionalDetails, b: OptionalDetails) -> Bool { a.value == b.value }
}
