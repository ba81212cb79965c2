import Countdowns
import Dispatch
import DispatchTimers
import Glibc
import Runtime

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

/// Looks up host names, each on a thread of its own, as this blocks for as long as the name servers
/// take. What was found last is used at once, while it is looked up again. Numeric addresses need
/// no thread.
final class Addresses {
  typealias Found = Result<[SocketAddress], FleetError>
  typealias Lookup = @Sendable (FleetSettings.Node) -> Found

  /// Who waits for a name. A connection gives up after a while, and asks again.
  private struct Waiting {
    var since: UInt64
    var done: (Found) -> Void
  }

  /// The most threads; other names wait.
  private static let maximumLookups = 16
  private static let maximumKnown = 1_000
  private static let patienceMicroseconds: UInt64 = 2_000_000

  private let loop: EventLoop
  private let lookUp: Lookup
  /// The addresses that were found last.
  private var known: [FleetSettings.Node: [SocketAddress]] = [:]
  private var waiting: [FleetSettings.Node: [Waiting]] = [:]
  private var underWay: Set<FleetSettings.Node> = []

  init(_ loop: EventLoop, lookUp: @escaping Lookup = Addresses.ask) {
    self.loop = loop
    self.lookUp = lookUp
  }

  /// Passes `done` the addresses of a host, or an error, perhaps before it returns. It may never be
  /// called if that takes long; but then the next call has them at once.
  func find(_ node: FleetSettings.Node, _ done: @escaping (Found) -> Void) {
    if let addresses = try? Self.look(up: node, AI_NUMERICHOST) { return done(.success(addresses)) }
    let now = BootClock.now
    waiting[node, default: []].removeAll { now - $0.since > Self.patienceMicroseconds }
    if let addresses = known[node] {
      done(.success(addresses))
    } else {
      waiting[node]!.append(Waiting(since: now, done: done))
    }
    begin(node)
  }

  private func begin(_ node: FleetSettings.Node) {
    guard underWay.count < Self.maximumLookups, underWay.insert(node).inserted else { return }
    let (loop, lookUp) = (loop, lookUp)
    // Used on the loop alone, where it comes from.
    nonisolated(unsafe) weak let own = self
    DispatchQueue(label: "countdownd.names").async {
      let found = lookUp(node)
      loop.execute { unsafe own?.take(found, of: node) }
    }
  }

  private func take(_ found: Found, of node: FleetSettings.Node) {
    underWay.remove(node)
    if case .success(let addresses) = found {
      if known.count >= Self.maximumKnown { known = [:] }
      known[node] = addresses
    }
    for waiting in waiting.removeValue(forKey: node) ?? [] { waiting.done(found) }
    if let next = waiting.keys.first(where: { !underWay.contains($0) }) { begin(next) }
  }

  @Sendable private static func ask(_ node: FleetSettings.Node) -> Found {
    Result { () throws(FleetError) in try look(up: node, 0) }
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
