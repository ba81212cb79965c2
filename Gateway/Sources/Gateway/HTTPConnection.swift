import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypes
import NIOHTTPTypesHTTP1

/// Reads the requests of one connection, one at a time, and writes their responses.
///
/// A request for events ends that: its stream takes the connection over, without any handler.
/// Closes connections whose requests arrive too slowly, and idle ones.
final class HTTPConnection<Responder: HTTPResponder>: ChannelInboundHandler,
  RemovableChannelHandler
where Responder.Context == RequestFacts {
  typealias InboundIn = HTTPRequestPart
  typealias OutboundOut = HTTPResponsePart

  /// The time for a whole request, from its head or the start of the connection.
  private static var patience: TimeAmount { .seconds(10) }
  /// The time between a response and the head of the next request.
  private static var idle: TimeAmount { .seconds(60) }

  private let responder: Responder
  private let logger: Logger
  private var head: HTTPRequest?
  private var body = ByteBuffer()
  private var deadline: Scheduled<Void>?

  init(_ responder: Responder, _ logger: Logger) {
    self.responder = responder
    self.logger = logger
  }

  // MARK: Time limits

  private func arm(_ context: ChannelHandlerContext, _ time: TimeAmount) {
    deadline?.cancel()
    let channel = context.channel
    deadline = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
  }

  func handlerAdded(context: ChannelHandlerContext) { arm(context, Self.patience) }
  func handlerRemoved(context: ChannelHandlerContext) { deadline?.cancel() }

  // MARK: Requests

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head(var head):
      // All methods that no address takes are refused alike.
      if !Router<RequestFacts>.methods.contains(head.method) { head.method = .trace }
      self.head = head
      arm(context, Self.patience)
    case .body(let bytes):
      // The handler refuses a body that is too long.
      if body.readableBytes <= RequestFacts.longestBody { body.writeImmutableBuffer(bytes) }
    case .end:
      deadline?.cancel()
      guard let head else { return }
      let request = Request(head: head, body: .init(buffer: body))
      self.head = nil
      body = ByteBuffer()
      respond(to: request, context)
    }
  }

  private func respond(to request: Request, _ context: ChannelHandlerContext) {
    let facts = RequestFacts(
      source: ApplicationRequestContextSource(channel: context.channel, logger: logger))
    let bound = NIOLoopBound((connection: self, context: context), eventLoop: context.eventLoop)
    let loop = context.eventLoop
    Task { [responder, logger] in
      do {
        let response = try await responder.respond(to: request, context: facts)
        let bytes = Collector()
        try await response.body.write(bytes)
        loop.execute { [bytes = bytes.bytes] in
          let (connection, context) = bound.value
          if let stream = facts.opened.stream {
            connection.hand(context, to: stream, response.head)
          } else {
            connection.send(response.head, bytes, of: request, context)
          }
        }
      } catch {
        logger.error("a request failed", metadata: ["error": "\(error)"])
        facts.channel.close(promise: nil)
      }
    }
  }

  private func send(
    _ head: HTTPResponse, _ bytes: ByteBuffer, of request: Request, _ context: ChannelHandlerContext
  ) {
    var head = head
    // The length of an answer to HEAD may be unknown, and then only its end tells.
    let closes =
      request.headers[.connection]?.lowercased() == "close"
      || request.method == .head && head.headerFields[.contentLength] == nil
    if closes { head.headerFields[.connection] = "close" }
    context.write(wrapOutboundOut(.head(head)), promise: nil)
    if bytes.readableBytes > 0 { context.write(wrapOutboundOut(.body(bytes)), promise: nil) }
    let end = context.writeAndFlush(wrapOutboundOut(.end(nil)))
    if closes {
      let channel = context.channel
      end.whenComplete { _ in channel.close(promise: nil) }
    } else {
      arm(context, Self.idle)
    }
  }

  /// Collects the body of a response. Streams have none.
  private final class Collector: ResponseBodyWriter {
    private(set) var bytes = ByteBuffer()

    func write(_ buffer: ByteBuffer) { bytes.writeImmutableBuffer(buffer) }
    func finish(_: HTTPFields?) {}
  }

  // MARK: Streams

  /// Gives the connection to a stream, which writes to the socket without HTTP's handlers.
  private func hand(
    _ context: ChannelHandlerContext, to stream: EventStream, _ head: HTTPResponse
  ) {
    var text = ByteBuffer(string: "HTTP/1.1 \(head.status.code) \(head.status.reasonPhrase)\r\n")
    // The end of the connection is the end of the body.
    for field in head.headerFields where field.name != .contentLength {
      text.writeString("\(field.name): \(field.value)\r\n")
    }
    text.writeString("Connection: close\r\n\r\n")
    let pipeline = context.pipeline.syncOperations
    var removals: [EventLoopFuture<Void>] = []
    func remove<Handler: RemovableChannelHandler>(_: Handler.Type) {
      guard let handler = try? pipeline.handler(type: Handler.self) else { return }
      removals.append(pipeline.removeHandler(handler))
    }
    remove(HTTPConnection.self)
    remove(HTTP1ToHTTPServerCodec.self)
    remove(HTTPServerProtocolErrorHandler.self)
    remove(HTTPServerPipelineHandler.self)
    remove(ByteToMessageHandler<HTTPRequestDecoder>.self)
    remove(HTTPResponseEncoder.self)
    EventLoopFuture.andAllComplete(removals, on: context.eventLoop)
      .assumeIsolated().whenComplete { _ in stream.flow(after: text) }
  }
}
