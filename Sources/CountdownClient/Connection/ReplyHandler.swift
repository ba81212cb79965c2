import NIOCore
import Wire

/// Encoded commands and promises for their replies. A command that pushes answer, such as
/// `SUBSCRIBE`, has no promise.
struct Request: Sendable {
  let bytes: ByteBuffer
  let promises: [EventLoopPromise<RESPValue>]
}

/// Matches replies with commands in order, and passes everything else to `unsolicited`.
final class ReplyHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = Never
  typealias OutboundIn = Request
  typealias OutboundOut = ByteBuffer

  private var decoder = ReplyDecoder()
  private var waiting = CircularBuffer<EventLoopPromise<RESPValue>>()
  private var failure: CountdownClientError = .connectionClosed
  private let unsolicited: @Sendable (RESPValue) -> Void

  init(unsolicited: @escaping @Sendable (RESPValue) -> Void) {
    self.unsolicited = unsolicited
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let request = unwrapOutboundIn(data)
    waiting.append(contentsOf: request.promises)
    context.write(wrapOutboundOut(request.bytes), promise: promise)
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    decoder.feed(unwrapInboundIn(data).readableBytesView)
    do {
      while let value = try decoder.next() { deliver(value) }
    } catch {
      failure = .protocolViolation("\(error)")
      context.close(promise: nil)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    while let promise = waiting.popFirst() { promise.fail(failure) }
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  private func deliver(_ value: RESPValue) {
    if case .push = value {
      unsolicited(value)
    } else if let promise = waiting.popFirst() {
      promise.succeed(value)
    } else {
      unsolicited(value)
    }
  }
}
