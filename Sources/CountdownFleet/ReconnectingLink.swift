import Countdowns
import Wire

/// A connection to a primary of a fleet, made again some time after it was lost.
final class ReconnectingLink {
  let node: FleetSettings.Node
  private let means: FleetConnection.Means
  private let ready: (FleetConnection.Greeting) -> Void
  private let received: (RESPValue) -> Void
  private let lost: (FleetTrouble) -> Void
  private(set) var connection: FleetConnection?
  private var backoff = Backoff()
  private var isClosed = false

  /// - Parameters:
  ///   - ready: called when the server has answered the greeting.
  ///   - received: called with each reply, in the order of the requests.
  ///   - lost: called with the reason when the connection was closed; it may `close` this for good.
  init(
    _ node: FleetSettings.Node, _ means: FleetConnection.Means,
    ready: @escaping (FleetConnection.Greeting) -> Void,
    received: @escaping (RESPValue) -> Void, lost: @escaping (FleetTrouble) -> Void
  ) {
    (self.node, self.means) = (node, means)
    (self.ready, self.received, self.lost) = (ready, received, lost)
  }

  /// Whether there is a connection, or one is being made.
  var isOpen: Bool { connection != nil }
  var isReady: Bool { connection?.isReady == true }

  func open() {
    guard !isClosed, connection == nil else { return }
    connection = FleetConnection(node, means) { [unowned self] greeting in
      ready(greeting)
    } received: { [unowned self] in
      received($0)
    } closed: { [unowned self] in
      lose($0)
    }
    connection?.open()
  }

  func send(_ bytes: [UInt8], replies: Int, within patience: UInt64) {
    connection?.send(bytes, replies: replies, within: patience)
  }

  /// Closes the connection, and makes another one later.
  func lose(_ reason: FleetTrouble) {
    drop()
    lost(reason)
    means.loop.schedule(inMilliseconds: backoff.next()) { [weak self] in self?.open() }
  }

  /// Notes that the server does what it should, so the next connection is made soon.
  func works() { backoff.reset() }

  /// Closes the connection until it is opened again.
  func drop() {
    connection?.close()
    connection = nil
  }

  /// Closes the connection for good.
  func close() {
    isClosed = true
    drop()
  }
}
