import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTPTypes
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Accepts connections and hands their requests to the router.
///
/// Hummingbird's own server cannot take a socket from systemd, has no time limit for headers, and
/// does not bound the kernel's buffer for a client.
struct HTTPServer<Responder: HTTPResponder>: Service where Responder.Context == RequestFacts {
  enum Address: Sendable {
    case host(String, port: Int)
    /// A socket that systemd has opened.
    case descriptor(Int32)
  }

  let address: Address
  let responder: Responder
  let logger: Logger
  /// Called with the port once connections are accepted.
  let isListening: @Sendable (Int?) -> Void
  var mostConnections = 20_000
  /// How long open streams have to end at a shutdown.
  private static var grace: Duration { .milliseconds(500) }

  func run() async throws {
    let http = HTTP1Channel(
      responder: { [responder, logger] request, writer, channel in
        let context = RequestFacts(
          source: ApplicationRequestContextSource(channel: channel, logger: logger))
        let response = try await responder.respond(to: request, context: context)
        try await writer.write(response: response.head, body: response.body)
      },
      configuration: .init(
        additionalChannelHandlers: [RequestDeadline()],
        httpDecoderConfiguration: .init(
          maxHeaderFieldSize: 16 << 10, maxHeaderListSize: 32 << 10, maxHeaderFieldCount: 100)))
    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1_024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      // Keeps unread output in this process, where it is bounded, and not in the kernel.
      .childChannelOption(.socketOption(.so_sndbuf), value: 64 << 10)
      .childChannelOption(.writeBufferWaterMark, value: .init(low: 8 << 10, high: 16 << 10))
    let setup: @Sendable (any Channel) -> EventLoopFuture<HTTP1Channel.Value> = { [logger] in
      http.setup(channel: $0, logger: logger)
    }
    let server =
      switch address {
      case .host(let host, let port):
        try await bootstrap.bind(host: host, port: port, childChannelInitializer: setup)
      case .descriptor(let descriptor):
        try await bootstrap.bind(descriptor, childChannelInitializer: setup)
      }
    isListening(server.channel.localAddress?.port)
    try await withGracefulShutdownHandler {
      try await server.executeThenClose { clients in
        let open = OpenConnections()
        try await withThrowingDiscardingTaskGroup { group in
          for try await client in clients {
            if open.add() > mostConnections { client.channel.close(promise: nil) }
            group.addTask { [logger] in
              await http.handle(value: client, logger: logger)
              open.remove()
            }
          }
          try? await Task.sleep(for: Self.grace)
          group.cancelAll()
        }
      }
    } onGracefulShutdown: {
      server.channel.close(promise: nil)
    }
  }
}

/// The number of open connections.
private final class OpenConnections: Sendable {
  private let count = Atomic(0)

  func add() -> Int { count.add(1, ordering: .relaxed).newValue }
  func remove() { count.subtract(1, ordering: .relaxed) }
}

/// Closes connections whose requests arrive too slowly, and idle ones.
final class RequestDeadline: ChannelDuplexHandler, RemovableChannelHandler {
  typealias InboundIn = HTTPRequestPart
  typealias InboundOut = HTTPRequestPart
  typealias OutboundIn = HTTPResponsePart
  typealias OutboundOut = HTTPResponsePart

  /// The time for a whole request, from its head or the start of the connection.
  private static let request = TimeAmount.seconds(10)
  /// The time between a response and the head of the next request.
  private static let idle = TimeAmount.seconds(60)

  private var deadline: Scheduled<Void>?

  private func arm(_ context: ChannelHandlerContext, _ time: TimeAmount) {
    deadline?.cancel()
    let channel = context.channel
    deadline = context.eventLoop.scheduleTask(in: time) { channel.close(promise: nil) }
  }

  func handlerAdded(context: ChannelHandlerContext) {
    if context.channel.isActive { arm(context, Self.request) }
  }

  func handlerRemoved(context: ChannelHandlerContext) { deadline?.cancel() }

  func channelActive(context: ChannelHandlerContext) {
    arm(context, Self.request)
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    deadline?.cancel()
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    switch unwrapInboundIn(data) {
    case .head: arm(context, Self.request)
    case .body: break
    case .end: deadline?.cancel()
    }
    context.fireChannelRead(data)
  }

  func write(
    context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?
  ) {
    if case .end = unwrapOutboundIn(data) { arm(context, Self.idle) }
    context.write(data, promise: promise)
  }
}
