import Histogram
import NIOCore
import NIOPosix

/// Another client, who only wants to know from time to time whether the daemon answers.
///
/// Asks at fixed moments and counts from these moments on, so that a daemon that does not answer for
/// long is as slow in the figures as it is to those who would have asked meanwhile.
///
/// Unchecked: everything but `open` happens on the event loop of its channel.
final class PingProbe: ChannelInboundHandler, @unchecked Sendable {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  static let interval = TimeAmount.milliseconds(10)

  private var latencies = Latencies.microseconds
  /// When those that are under way were due.
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

  func start() {
    loop.execute {
      self.isMeasuring = true
      self.ask(at: .now())
    }
  }

  func stop() async throws -> Latencies {
    try await loop.submit {
      self.isMeasuring = false
      // What has not been answered yet is late already.
      for due in self.asked { self.record(NIODeadline.now() - due) }
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

  private func record(_ latency: TimeAmount) {
    latencies.record(UInt64(max(0, latency.nanoseconds + 500) / 1_000))
  }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let now = NIODeadline.now()
    for _ in 0..<buffer.withUnsafeReadableBytes({ replies.feed($0) }) {
      guard let due = asked.popFirst() else { return }
      record(now - due)
    }
  }
}
