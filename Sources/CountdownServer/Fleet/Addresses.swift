import Countdowns
import Dispatch
import Glibc

/// An address that a socket can connect to.
struct SocketAddress: Sendable {
  private(set) var storage = sockaddr_storage()
  private(set) var length: socklen_t

  fileprivate init?(_ info: addrinfo) {
    guard let address = unsafe info.ai_addr,
      unsafe Int(info.ai_addrlen) <= MemoryLayout<sockaddr_storage>.size
    else { return nil }
    length = unsafe info.ai_addrlen
    unsafe withUnsafeMutableBytes(of: &storage) {
      unsafe $0.copyMemory(
        from: UnsafeRawBufferPointer(start: address, count: Int(info.ai_addrlen)))
    }
  }

  var family: Int32 { Int32(storage.ss_family) }

  func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
    unsafe withUnsafePointer(to: storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, length) }
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
      loop.execute { unsafe done(result) }
    }
  }

  private static func look(
    up node: FleetSettings.Node, _ flags: Int32
  ) throws(FleetError) -> [SocketAddress] {
    var hints = unsafe addrinfo()
    unsafe hints.ai_family = AF_UNSPEC
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    unsafe hints.ai_flags = flags | AI_NUMERICSERV
    var first: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(node.host, "\(node.port)", &hints, &first)
    guard code == 0 else {
      throw FleetError(unsafe "no address of \(node.host): \(String(cString: gai_strerror(code)))")
    }
    defer { unsafe freeaddrinfo(first) }
    var addresses: [SocketAddress] = []
    var next = unsafe first
    while let info = unsafe next {
      unsafe SocketAddress(info.pointee).map { addresses.append($0) }
      unsafe next = info.pointee.ai_next
    }
    return addresses
  }
}
