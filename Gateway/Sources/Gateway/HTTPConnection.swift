import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1

/// Reads the requests of one connection, one at a time, and writes their responses. A task on the
/// connection's event loop answers them.
///
/// A request for events ends that: its stream takes the connection over, without any handler.
/// Closes connections whose requests arrive too slowly, and idle ones.
final class HTTPConnection<Responder: HTTPResponder>: ChannelDuplexHandler,
  RemovableChannelHandler
where Responder.Context == RequestFacts {
  typealias InboundIn = HTTPServerRequestPart
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// The time for a whole request, from its head or the start of the connection.
  private static var patience: TimeAmount { .seconds(10) }
  /// The time between a response and the head of the next request.
  private static var idle: TimeAmount { .seconds(60) }

  private let decoder: ByteToMessageHandler<HTTPRequestDecoder>
  private let responder: Responder
  private let logger: Logger
  private var head: HTTPRequestHead?
  private var body = ByteBuffer()
  private var deadline: Scheduled<Void>?
  private var isResponding = false
  /// What was read while responding. Nothing more is read then.
  private var waiting = CircularBuffer<HTTPServerRequestPart>(initialCapacity: 1)
  private var wantsRead = false
  /// Whether what came is no HTTP.
  private var isBroken = false

  init(
    _ decoder: ByteToMessageHandler<HTTPRequestDecoder>, _ responder: Responder, _ logger: Logger
  ) {
    self.decoder = decoder
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
    let part = unwrapInboundIn(data)
    if isResponding { waiting.append(part) } else { receive(part, context) }
  }

  func read(context: ChannelHandlerContext) {
    if isResponding { wantsRead = true } else { context.read() }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    guard error is HTTPParserError else { return }
    isBroken = true
    if !isResponding { refuse(context) }
  }

  /// Answers what is no HTTP.
  private func refuse(_ context: ChannelHandlerContext) {
    let head = HTTPResponse(
      status: .badRequest, headerFields: [.connection: "close", .contentLength: "0"])
    write(head.text, context, closes: true)
  }

  private func receive(_ part: HTTPServerRequestPart, _ context: ChannelHandlerContext) {
    switch part {
    case .head(let head):
      self.head = head
      arm(context, Self.patience)
    case .body(let bytes):
      // The handler refuses a body that is too long.
      if body.readableBytes <= RequestFacts.longestBody { body.writeImmutableBuffer(bytes) }
    case .end:
      deadline?.cancel()
      guard let head else { return }
      let request = Request(head: HTTPRequest(head), body: .init(buffer: body))
      self.head = nil
      body = ByteBuffer()
      respond(to: request, context)
    }
  }

  private func respond(to request: Request, _ context: ChannelHandlerContext) {
    isResponding = true
    let facts = RequestFacts(
      source: ApplicationRequestContextSource(channel: context.channel, logger: logger))
    let bound = NIOLoopBound((connection: self, context: context), eventLoop: context.eventLoop)
    Task(executorPreference: LoopExecutor(loop: context.eventLoop)) { [responder, logger] in
      do {
        let response = try await responder.respond(to: request, context: facts)
        let bytes = Collector()
        try await response.body.write(bytes)
        let (connection, context) = bound.value
        if let stream = facts.opened.stream {
          connection.hand(context, to: stream, response.head)
        } else {
          connection.send(response.head, bytes.bytes, of: request, context)
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
    if head.status == .noContent || head.status == .notModified {
      head.headerFields[.contentLength] = nil
    }
    var text = head.text
    text.writeImmutableBuffer(bytes)
    write(text, context, closes: closes)
    if closes { return }
    arm(context, Self.idle)
    resume(context)
  }

  private func write(_ text: ByteBuffer, _ context: ChannelHandlerContext, closes: Bool) {
    let written = context.writeAndFlush(wrapOutboundOut(text))
    let channel = context.channel
    if closes { written.whenComplete { _ in channel.close(promise: nil) } }
  }

  /// Continues with the next request.
  private func resume(_ context: ChannelHandlerContext) {
    isResponding = false
    while !isResponding, let part = waiting.popFirst() { receive(part, context) }
    if isResponding { return }
    if isBroken { return refuse(context) }
    if wantsRead {
      wantsRead = false
      context.read()
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
    var head = head
    // The end of the connection is the end of the body.
    head.headerFields[.contentLength] = nil
    head.headerFields[.connection] = "close"
    let pipeline = context.pipeline.syncOperations
    // Tells the socket to read on, so that it notices when the page leaves.
    if wantsRead { context.read() }
    pipeline.removeHandler(decoder, promise: nil)
    pipeline.removeHandler(context: context, promise: nil)
    stream.flow(after: head.text)
  }
}

extension HTTPRequest {
  fileprivate init(_ head: HTTPRequestHead) {
    // The library parses any URI, which takes long.
    if head.uri.utf8.first == UInt8(ascii: "/") {
      self.init(
        method: (try? Method(head.method)) ?? .trace, scheme: "http",
        authority: head.headers.first(name: "Host"), path: head.uri,
        headerFields: HTTPFields(head.headers, splitCookie: false))
    } else if let request = try? HTTPRequest(head, secure: false, splitCookie: false) {
      self = request
    } else {
      self.init(method: .trace, scheme: "http", authority: nil, path: "/")
    }
    // All methods that no address takes are refused alike.
    if !Router<RequestFacts>.methods.contains(method) { method = .trace }
  }
}

extension HTTPResponse {
  /// The head in HTTP/1.1.
  fileprivate var text: ByteBuffer {
    var text = ByteBuffer()
    text.writeString("HTTP/1.1 \(status.code) \(status.reasonPhrase)\r\n")
    for field in headerFields {
      text.writeString(field.name.rawName)
      text.writeString(": ")
      text.writeString(field.value)
      text.writeString("\r\n")
    }
    text.writeString("\r\n")
    return text
  }
}
