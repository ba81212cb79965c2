import NIOCore

/// One connection of the load: sends a batch of commands, waits for all their replies, then asks
/// its worker for the next one.
///
/// Runs only on the event loop of its worker.
final class LoadConnection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The keys of the current batch, and their stage in the phase.
  var keys = 0..<0
  var stage = 0
  /// The due times of batches that wait for the replies to an earlier batch.
  var overdue = CircularBuffer<NIODeadline>()

  /// The number of replies that the batch still awaits.
  private(set) var missing = 0
  /// The time from which the latency of the batch is measured.
  private var since = NIODeadline.uptimeNanoseconds(0)
  private var replies = ReplyCounter()
  private var scratch = ByteBuffer()
  private var context: ChannelHandlerContext?
  private let worker: LoadWorker

  init(worker: LoadWorker) { self.worker = worker }

  func handlerAdded(context: ChannelHandlerContext) { self.context = context }

  func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

  /// Sends PING, because the daemon accepts every connection and closes those over its limit
  /// afterwards.
  func channelActive(context: ChannelHandlerContext) {
    missing = 1
    write { $0.writeStaticString("*1\r\n$4\r\nPING\r\n") }
  }

  /// Sends a command for each of `keys`; their latency is measured from `since`.
  func send(_ command: KeyCommand, since: NIODeadline, now: NIODeadline) {
    self.since = since
    missing = keys.count
    write { buffer in
      for key in keys { command.write(key: key, now: now, to: &buffer) }
    }
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let buffer = unwrapInboundIn(data)
    let complete = replies.feed(buffer.readableBytesUInt8Span)
    if replies.errors > 0 { worker.failed(with: replies.firstError) }
    guard complete > 0 else { return }
    let now = NIODeadline.now()
    missing -= complete
    worker.replied(self, count: complete, after: now - since, now: now)
  }

  func channelInactive(context: ChannelHandlerContext) {
    worker.closed(self)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  func close() { context?.close(promise: nil) }

  private func write(_ fill: (inout ByteBuffer) -> Void) {
    guard let context else { return }
    scratch.clear()
    fill(&scratch)
    context.writeAndFlush(wrapOutboundOut(scratch), promise: nil)
  }
}
