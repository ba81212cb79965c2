import Histogram
import NIOCore
import NIOPosix

/// The latencies of PINGs.
struct PingLatencies: Sendable {
  var all = Latencies.microseconds
  /// The latencies of PINGs due after the first event, which leaves out the load at full speed.
  var whileDue = Latencies.microseconds
}

/// Another client, which sends PING at fixed intervals.
///
/// Latencies count from the scheduled times, so that a stall of the daemon shows in the figures as
/// it does for clients that send meanwhile.
///
/// Unchecked: everything but `open` happens on the event loop of its channel.
final class PingProbe: ChannelInboundHandler, @unchecked Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  static let interval = TimeAmount.milliseconds(10)

  private var latencies = PingLatencies()
  private var firstDue = NIODeadline.distantFuture
  /// The due times of unanswered PINGs, oldest first.
  private var asked = CircularBuffer<NIODeadline>()
  private var replies = ReplyCounter()
  private var isMeasuring = false
  private let loop: any EventLoop
  private var context: ChannelHandlerContext?

  private init(loop: any EventLoop) { self.loop = loop }

  static func open(path: String, loop: any EventLoop) async throws -> PingProbe {
    let probe = PingProbe(loop: loop)
    _ = try await ClientBootstrap(group: loop)
      .channelInitializer { $0.pipeline.addHandler(probe) }
      .connect(unixDomainSocketPath: path).get()
    return probe
  }

  /// - Parameter firstDue: the time at which the first event is due.
  func start(firstDue: NIODeadline) {
    loop.execute {
      self.firstDue = firstDue
      self.isMeasuring = true
      self.ask(at: .now())
    }
  }

  func stop() async throws -> PingLatencies {
    try await loop.submit {
      self.isMeasuring = false
      // Unanswered PINGs count with the time passed up to now.
      for due in self.asked { self.record(due, until: .now()) }
      self.asked.removeAll()
      self.context?.close(promise: nil)
      return self.latencies
    }.get()
  }

  private func ask(at due: NIODeadline) {
    guard isMeasuring, let context else { return }
    asked.append(due)
    context.writeAndFlush(
      wrapOutboundOut(ByteBuffer(staticString: "*1\r\n$4\r\nPING\r\n")), promise: nil)
    let next = due + Self.interval
    loop.scheduleTask(deadline: next) { self.ask(at: next) }
  }

  private func record(_ due: NIODeadline, until answer: NIODeadline) {
    let microseconds = UInt64(max(0, (answer - due).nanoseconds + 500) / 1_000)
    latencies.all.record(microseconds)
    if due >= firstDue { latencies.whileDue.record(microseconds) }
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let now = NIODeadline.now()
    for _ in 0..<replies.feed(buffer.readableBytesUInt8Span) {
      guard let due = asked.popFirst() else { return }
      record(due, until: now)
    }
  }
}
