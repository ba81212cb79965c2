/// The event handlers of one scope, in the order of their SCOPE HANDLE commands.
package struct Handlers: Equatable, Sendable {
  package struct Handler: Equatable, Sendable {
    package var connection: UInt64
    /// The name of an event, or `*` for any.
    package var event: [UInt8]
    /// Whether the handler takes events on their way down to their target.
    package var captures: Bool

    package init(connection: UInt64, event: [UInt8], captures: Bool) {
      self.connection = connection
      self.event = event
      self.captures = captures
    }

    package func handles(_ name: [UInt8]) -> Bool {
      event == name || event.elementsEqual([UInt8(ascii: "*")])
    }
  }

  var all: [Handler] = []

  package init() {}

  package var count: Int { all.count }
  package var isEmpty: Bool { all.isEmpty }

  package var connections: Set<UInt64> { Set(all.map(\.connection)) }

  package func contains(_ handler: Handler) -> Bool { all.contains(handler) }
  package func contains(connection: UInt64) -> Bool {
    all.contains { $0.connection == connection }
  }

  /// Adds a handler. Returns false if it existed.
  package mutating func add(_ handler: Handler) -> Bool {
    guard !all.contains(handler) else { return false }
    all.append(handler)
    return true
  }

  /// Removes a connection's handlers of an event, capturing or not, and returns their number.
  package mutating func remove(connection: UInt64, event: [UInt8]) -> Int {
    let before = all.count
    all.removeAll { $0.connection == connection && $0.event == event }
    return before - all.count
  }

  package mutating func removeAll(of connection: UInt64) {
    all.removeAll { $0.connection == connection }
  }

  /// Returns the connection that takes an event here: the first that handles it and can receive it.
  package func taker(
    of event: [UInt8], capturing: Bool, where canReceive: (UInt64) -> Bool
  ) -> UInt64? {
    all.first { $0.captures == capturing && $0.handles(event) && canReceive($0.connection) }?
      .connection
  }
}
