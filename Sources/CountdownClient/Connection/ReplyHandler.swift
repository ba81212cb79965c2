import NIOCore
import Wire

/// Matches replies with commands in order, and passes everything else to `unsolicited`.
final class ReplyHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = Never
  typealias OutboundIn = Exchange
  typealias OutboundOut = ByteBuffer

  private var decoder = ReplyDecoder()
  private var waiting = CircularBuffer<Waiting>()

  private struct Waiting {
    let promise: EventLoopPromise<RESPValue>
    let exchange: Exchange
  }

  private var failure: CountdownClientError = .unsure(.connectionClosed)
  private var isClosed = false
  private let unsolicited: @Sendable (RESPValue) -> Void

  init(unsolicited: @escaping @Sendable (RESPValue) -> Void) {
    self.unsolicited = unsolicited
  }

  func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
    let exchange = unwrapOutboundIn(data)
    if isClosed {
      promise?.fail(ChannelError.ioOnClosedChannel)
    } else if exchange.begin() {
      for reply in exchange.promises { waiting.append(.init(promise: reply, exchange: exchange)) }
      context.write(wrapOutboundOut(exchange.bytes), promise: promise)
    } else {
      promise?.succeed()
    }
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
    isClosed = true
    while let one = waiting.popFirst() {
      one.promise.fail(one.exchange.isCutShort ? .connectionClosed : failure)
    }
    context.fireChannelInactive()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  /// Closes the connection for a reason, with which calls under way fail.
  func triggerUserOutboundEvent(
    context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
  ) {
    if let reason = event as? CountdownClientError { failure = reason }
    context.close(promise: promise)
  }

  private func deliver(_ value: RESPValue) {
    let isReply =
      if case .push(let push) = value {
        waiting.first?.exchange.isConfirmed == true && Self.isConfirmation(push)
      } else {
        true
      }
    if isReply, let one = waiting.popFirst() {
      one.promise.succeed(value)
    } else {
      unsolicited(value)
    }
  }

  private static func isConfirmation(_ push: [RESPValue]) -> Bool {
    push.first?.bytes.map(Client.answersWithPushes) ?? false
  }
}
