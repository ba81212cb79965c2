import Countdowns
import DequeModule
import DispatchTimers
import Glibc
import Runtime
import Wire

/// A connection to a server of a fleet: sends requests, and receives replies in their order.
///
/// Greets the server, with a user name and a password if there are any, and closes if the server
/// does not answer in time.
final class FleetConnection: EventSource {
  /// What all connections of a fleet need.
  struct Means {
    var loop: EventLoop
    var addresses: Addresses
    var secrets: FleetSecrets
  }

  /// What the server reports about itself.
  struct Greeting: Equatable {
    var version: String
    /// "master" or "replica"; empty for a sentinel.
    var role: String
    /// The id that the server gives the connection.
    var client: Int
  }

  private enum Phase { case idle, connecting, encrypting, greeting, ready, closed }

  /// The time limit for finding addresses, and for connecting and greeting: of the last address,
  /// and of each one before.
  private static let setupMilliseconds: UInt64 = 1_500
  private static let attemptMilliseconds: UInt64 = 500
  private static let readsPerTurn = 16
  private static let limits = {
    var limits = ReplyDecoder.Limits()
    limits.bulkLength = 16 << 20
    limits.depth = 8
    return limits
  }()

  let node: FleetSettings.Node
  private let means: Means
  private let sendsPassword: Bool
  private var ready: ((Greeting) -> Void)?
  private var received: ((RESPValue) -> Void)?
  private var closed: ((FleetTrouble) -> Void)?

  private var phase = Phase.idle
  private var descriptor: Int32 = -1
  private var tls: TLSSession?
  /// The addresses that have not been tried.
  private var addresses: ArraySlice<SocketAddress> = []
  private var attempts = 0
  private var decoder = ReplyDecoder(limits: limits)
  private var outbound = OutputQueue()
  /// Whether to wait until the socket can be written.
  private var mustWrite = false
  /// The expected replies, in groups that each have a deadline.
  private var expected: Deque<(count: Int, due: UInt64)> = []
  private var isWatched = false

  /// - Parameters:
  ///   - ready: called when the server has answered the greeting.
  ///   - received: called with each reply, in the order of the requests.
  ///   - closed: called with the reason when the connection fails; once, and never after `close`.
  init(
    _ node: FleetSettings.Node, _ means: Means, sendsPassword: Bool = true,
    ready: @escaping (Greeting) -> Void, received: @escaping (RESPValue) -> Void,
    closed: @escaping (FleetTrouble) -> Void
  ) {
    self.node = node
    self.means = means
    self.sendsPassword = sendsPassword
    self.ready = ready
    self.received = received
    self.closed = closed
  }

  deinit { precondition(descriptor < 0, "a connection is closed before it is released") }

  var isReady: Bool { phase == .ready }

  // MARK: Opening

  /// Begins to connect. The outcome is reported later, never before this returns.
  func open() {
    precondition(phase == .idle)
    phase = .connecting
    means.loop.schedule(inMilliseconds: Self.setupMilliseconds) { [weak self] in
      guard let self, phase == .connecting, attempts == 0 else { return }
      fail("its addresses were not found within \(Self.setupMilliseconds) ms")
    }
    means.loop.enqueue { [self] in
      guard phase == .connecting else { return }
      means.addresses.find(node) { [weak self] result in
        guard let self, phase == .connecting else { return }
        switch result {
        case .success(let found) where attempts == 0:
          addresses = found[...]
          tryNext("it has no address")
        case .success: return
        case .failure(let error): fail("\(error.description)")
        }
      }
    }
  }

  /// - Parameter problem: the error to report if no address is left.
  private func tryNext(_ problem: FleetTrouble) {
    releaseSocket()
    phase = .connecting
    (decoder, outbound, expected) = (ReplyDecoder(limits: Self.limits), OutputQueue(), [])
    attempts += 1
    var problem = problem
    while let address = addresses.popFirst() {
      let kind = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
      descriptor = socket(address.family, kind, 0)
      guard descriptor >= 0 else {
        problem = unsafe "no socket: \(String(cString: strerror(errno)))"
        continue
      }
      var on: Int32 = 1
      unsafe setsockopt(
        descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
      let result = unsafe address.withPointer { unsafe connect(descriptor, $0, $1) }
      if result == 0 || errno == EINPROGRESS {
        if means.loop.add(self, descriptor, EventLoop.writable) { return limitAttempt() }
        problem = "it cannot be waited for"
      } else {
        problem = unsafe "\(String(cString: strerror(errno)))"
      }
      Glibc.close(descriptor)
      descriptor = -1
    }
    fail(problem)
  }

  private func limitAttempt() {
    let attempt = attempts
    let limit = addresses.isEmpty ? Self.setupMilliseconds : Self.attemptMilliseconds
    means.loop.schedule(inMilliseconds: limit) { [weak self] in
      guard let self, attempt == attempts, phase != .ready, phase != .closed else { return }
      tryNext("it did not greet within \(limit) ms")
    }
  }

  private func finishConnecting() {
    var code: Int32 = 0
    var length = socklen_t(MemoryLayout<Int32>.size)
    unsafe getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
    guard code == 0 else { return unsafe tryNext("\(String(cString: strerror(code)))") }
    guard let context = means.secrets.tls else { return greet() }
    guard let session = TLSSession(context, descriptor, host: node.host) else {
      return fail("TLS cannot be begun")
    }
    tls = session
    phase = .encrypting
    encrypt()
  }

  private func encrypt() {
    guard let tls else { return }
    switch tls.handshake() {
    case .done: greet()
    case .needsInput: means.loop.update(descriptor, EventLoop.readable)
    case .needsOutput: means.loop.update(descriptor, EventLoop.writable)
    case .closed(let reason): fail("\(reason)")
    }
  }

  private func greet() {
    phase = .greeting
    var words = ["HELLO", "2"].map { Array($0.utf8) }
    if sendsPassword, let password = means.secrets.password {
      words += [Array("AUTH".utf8), Array((means.secrets.username ?? "default").utf8), password]
    }
    words += ["SETNAME", Product.name].map { Array($0.utf8) }
    var bytes: [UInt8] = []
    RESPRequest.append(words, to: &bytes)
    send(bytes, replies: 1, within: Self.setupMilliseconds)
  }

  private func takeGreeting(_ value: RESPValue) {
    if case .error(let text) = value { return fail(FleetTrouble(answer: text)) }
    guard let version = value["version"]?.string, let client = value["id"]?.int else {
      return fail("its greeting is not that of Redis or Valkey")
    }
    phase = .ready
    ready?(
      Greeting(version: version, role: value["role"]?.string ?? "", client: client))
  }

  // MARK: Requests

  /// Sends requests that will have `replies` replies in total.
  ///
  /// - Parameter patience: the time limit for all replies, in milliseconds; after it the connection
  ///   fails.
  func send(_ bytes: [UInt8], replies: Int, within patience: UInt64) {
    guard phase == .ready || phase == .greeting else { return }
    if replies > 0 { expected.append((replies, BootClock.now + patience * 1_000)) }
    outbound.append(bytes)
    writeOutbound()
    watch()
  }

  private func watch() {
    guard !isWatched, let due = expected.first?.due else { return }
    isWatched = true
    let now = BootClock.now
    let delay = due > now ? (due - now) / 1_000 + 1 : 1
    means.loop.schedule(inMilliseconds: delay) { [weak self] in
      guard let self, phase != .closed else { return }
      isWatched = false
      if let due = expected.first?.due, due <= BootClock.now {
        return fail("it did not answer in time")
      }
      watch()
    }
  }

  // MARK: Events

  func ready(_ events: EventLoop.Events) {
    switch phase {
    case .idle, .closed: return
    case .connecting: return finishConnecting()
    case .encrypting: return encrypt()
    case .greeting, .ready: break
    }
    if events & EventLoop.writable != 0 || !outbound.isEmpty { writeOutbound() }
    if phase != .closed, events & ~EventLoop.writable != 0 || tls != nil { read() }
  }

  private func read() {
    let buffer = unsafe means.loop.readBuffer
    for _ in 0..<Self.readsPerTurn where phase != .closed {
      switch unsafe receive(buffer) {
      case .done(let count):
        unsafe decoder.feed(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        takeReplies()
      case .needsInput: return
      case .needsOutput:
        mustWrite = true
        return updateInterest()
      case .closed(let reason): return fail("\(reason)")
      }
    }
    // The loop does not report input that TLS has read already and keeps in its own buffer.
    if phase != .closed, tls != nil {
      means.loop.enqueue { [weak self] in
        if let self, phase != .closed { read() }
      }
    }
  }

  private func takeReplies() {
    do {
      while phase != .closed, let value = try decoder.next() {
        if case .push = value { continue }
        guard !expected.isEmpty else { return fail("it answered what nobody asked") }
        expected[0].count -= 1
        if expected[0].count == 0 { expected.removeFirst() }
        if phase == .greeting { takeGreeting(value) } else { received?(value) }
      }
    } catch {
      fail("its answer is not RESP: \(error)")
    }
  }

  private func receive(_ buffer: UnsafeMutableRawBufferPointer) -> TLSSession.Outcome {
    if let tls { return unsafe tls.read(buffer) }
    let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
    return outcome(count, atEnd: "closed by the server", .needsInput)
  }

  private func writeOutbound() {
    mustWrite = false
    while phase != .closed, let outcome = unsafe outbound.withFirst({ unsafe transmit($0) }) {
      switch outcome {
      case .done(let count): outbound.removeFirst(count)
      case .needsInput: return updateInterest()
      case .needsOutput:
        mustWrite = true
        return updateInterest()
      case .closed(let reason):
        // `closed` must not be called from within `send`.
        mustWrite = true
        means.loop.enqueue { [weak self] in self?.fail("\(reason)") }
        return
      }
    }
    updateInterest()
  }

  private func transmit(_ bytes: UnsafeRawBufferPointer) -> TLSSession.Outcome {
    if let tls { return unsafe tls.write(bytes) }
    let count = unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
    return outcome(count, atEnd: "nothing can be sent", .needsOutput)
  }

  private func outcome(
    _ count: Int, atEnd: String, _ waits: TLSSession.Outcome
  ) -> TLSSession.Outcome {
    if count > 0 { return .done(count) }
    if count == 0 { return .closed(atEnd) }
    let code = errno
    return unsafe code == EAGAIN || code == EINTR ? waits : .closed(String(cString: strerror(code)))
  }

  private func updateInterest() {
    guard phase != .closed, descriptor >= 0 else { return }
    means.loop.update(
      descriptor, mustWrite ? EventLoop.readable | EventLoop.writable : EventLoop.readable)
  }

  // MARK: Ending

  private func fail(_ reason: FleetTrouble) {
    guard phase != .closed else { return }
    let closed = closed
    close()
    closed?(reason)
  }

  /// Closes the connection, without calling `closed`.
  func close() {
    phase = .closed
    releaseSocket()
    ready = nil
    received = nil
    closed = nil
  }

  private func releaseSocket() {
    tls = nil
    guard descriptor >= 0 else { return }
    means.loop.remove(descriptor)
    Glibc.close(descriptor)
    descriptor = -1
  }
}
