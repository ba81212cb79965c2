import Countdowns
import Dispatch
import Glibc

/// An address that a socket can connect to.
struct SocketAddress: Sendable {
  private(set) var storage = sockaddr_storage()
  private(set) var length: socklen_t

  fileprivate init?(_ info: addrinfo) {
    guard let address = info.ai_addr, Int(info.ai_addrlen) <= MemoryLayout<sockaddr_storage>.size
    else { return nil }
    length = info.ai_addrlen
    withUnsafeMutableBytes(of: &storage) {
      $0.copyMemory(from: UnsafeRawBufferPointer(start: address, count: Int(info.ai_addrlen)))
    }
  }

  var family: Int32 { Int32(storage.ss_family) }

  func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
    withUnsafePointer(to: storage) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, length) }
    }
  }
}

/// Looks up host names on a separate thread, as this blocks for as long as the name servers take.
/// Numeric addresses need no thread.
final class Addresses {
  private let loop: EventLoop
  private let queue = DispatchQueue(label: "countdownd.names")

  init(_ loop: EventLoop) { self.loop = loop }

  /// Passes `done` the addresses of a host, or an error, perhaps before it returns.
  func find(
    _ node: FleetSettings.Node,
    _ done: @escaping (Result<[SocketAddress], FleetError>) -> Void
  ) {
    if let addresses = try? Self.look(up: node, AI_NUMERICHOST) { return done(.success(addresses)) }
    // `done` is called on the loop, where it comes from.
    nonisolated(unsafe) let done = done
    let loop = loop
    queue.async {
      let result = Result { () throws(FleetError) in try Self.look(up: node, 0) }
      loop.execute { done(result) }
    }
  }

  private static func look(
    up node: FleetSettings.Node, _ flags: Int32
  ) throws(FleetError) -> [SocketAddress] {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = flags | AI_NUMERICSERV
    var first: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(node.host, "\(node.port)", &hints, &first)
    guard code == 0 else {
      throw FleetError("no address of \(node.host): \(String(cString: gai_strerror(code)))")
    }
    defer { freeaddrinfo(first) }
    var addresses: [SocketAddress] = []
    var next = first
    while let info = next {
      SocketAddress(info.pointee).map { addresses.append($0) }
      next = info.pointee.ai_next
    }
    return addresses
  }
}
