import CountdownClient
import NIOCore
import NIOPosix

/// The number and the lateness of the events that a listener has received.
struct EventCounts: Sendable {
  var ready = 0
  var ticks = 0
  /// Events that arrived before they were due, by this process's clock or the daemon's.
  var early = 0
  /// The lateness that the daemon reports, `late_us`.
  var late = Latencies.microseconds
  /// The time from an event's deadline until it is read here, in microseconds. Up to 1 ms too long,
  /// because `due_unix_ms` is rounded down.
  var arrivedLate = Latencies.microseconds

  /// Counts an event that was read at `now`, by the wall clock.
  mutating func add(_ event: ScannedEvent, atUnixMicroseconds now: Int) {
    switch event.name {
    case .ready: ready += 1
    case .tick: ticks += 1
    case .other: return
    }
    guard let due = event.dueUnixMS, let said = event.lateMicroseconds else { return }
    let lateness = now - due * 1_000
    if lateness < 0 || said < 0 { early += 1 }
    late.record(UInt64(max(0, said)))
    arrivedLate.record(UInt64(max(0, lateness)))
  }
}

/// Subscribes to all channels with a prefix, and measures the events.
///
/// Unchecked: everything but `open` happens on the event loop of its channel.
final class EventListener: ChannelInboundHandler, @unchecked Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private(set) var counts = EventCounts()
  private let pattern: String
  private var scanner = EventScanner()
  private var wanted = Int.max
  private var isSubscribed = false
  private let subscribed: EventLoopPromise<Void>
  private let complete: EventLoopPromise<Void>
  private let loop: any EventLoop

  private init(prefix: String, loop: any EventLoop) {
    pattern = "countdown:\(prefix)*"
    self.loop = loop
    subscribed = loop.makePromise()
    complete = loop.makePromise()
  }

  /// Connects and subscribes.
  static func open(
    path: String, prefix: String, loop: any EventLoop
  ) async throws -> EventListener {
    let listener = EventListener(prefix: prefix, loop: loop)
    do {
      _ = try await ClientBootstrap(group: loop)
        .channelOption(
          .recvAllocator,
          value: AdaptiveRecvByteBufferAllocator(
            minimum: 64 << 10, initial: 64 << 10, maximum: 1 << 20)
        )
        .channelInitializer { $0.pipeline.addHandler(listener) }
        .connect(unixDomainSocketPath: path).get()
    } catch {
      listener.subscribed.fail(error)
      listener.complete.fail(error)
    }
    try await listener.subscribed.futureResult.get()
    return listener
  }

  /// Waits until `count` countdowns have become ready or `patience` is over. Throws if the
  /// connection closes first.
  func wait(forReady count: Int, patience: TimeAmount) async throws {
    loop.execute {
      self.wanted = count
      self.completeIfDone()
    }
    loop.scheduleTask(in: patience) { self.complete.succeed() }
    try await complete.futureResult.get()
  }

  /// Makes `wait` return.
  func stop() { loop.execute { self.complete.succeed() } }

  func read<R: Sendable>(_ body: @escaping @Sendable (EventCounts) -> R) async throws -> R {
    try await loop.submit { body(self.counts) }.get()
  }

  func channelActive(context: ChannelHandlerContext) {
    let words = ["PSUBSCRIBE", pattern].map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
    context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "*2\r\n" + words)), promise: nil)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // One time for all events of a read: they were in the socket together.
    let microseconds = WallClock.nowUnixMicroseconds
    var bytes = unwrapInboundIn(data)
    let error = scanner.feed(&bytes) { counts.add($0, atUnixMicroseconds: microseconds) }
    if let error { fail(CountdownClientError(reply: error)) }
    if !isSubscribed {
      isSubscribed = true
      subscribed.succeed()
    }
    completeIfDone()
  }

  func channelInactive(context: ChannelHandlerContext) {
    fail(
      .server(
        code: "LIMIT",
        message: "the daemon has closed the connection that listens to events; a reader too slow "
          + "for them exceeds max-output: use fewer countdowns, or raise it"))
  }

  private func completeIfDone() {
    if counts.ready >= wanted { complete.succeed() }
  }

  private func fail(_ error: CountdownClientError) {
    subscribed.fail(error)
    complete.fail(error)
  }
}
