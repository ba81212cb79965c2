import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Accepts connections and hands their requests to the router.
///
/// Hummingbird's own server cannot take a socket from systemd, has no time limit for headers, and
/// keeps a task for each connection, which streams do not need.
struct HTTPServer<Responder: HTTPResponder>: Service where Responder.Context == RequestFacts {
  let address: Gateway.Address
  let responder: Responder
  let logger: Logger
  /// Called with the port once connections are accepted.
  let isListening: @Sendable (Int?) -> Void
  var mostConnections = 20_000
  /// How long open connections have to end at a shutdown. The process ends the others.
  private static var grace: Duration { .milliseconds(500) }

  func run() async throws {
    let open = OpenConnections()
    let setUp: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
      channel.eventLoop.makeCompletedFuture {
        guard open.add() <= mostConnections else {
          open.remove()
          throw ChannelError.connectTimeout(.zero)
        }
        channel.closeFuture.whenComplete { _ in open.remove() }
        try configure(channel)
      }
    }
    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
      .serverChannelOption(.backlog, value: 1_024)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      // Keeps unread output in this process, where it is bounded, and not in the kernel.
      .childChannelOption(.socketOption(.so_sndbuf), value: 64 << 10)
      .childChannelOption(
        .writeBufferWaterMark, value: .init(low: 8 << 10, high: EventStream.mostUnread)
      )
      .childChannelInitializer(setUp)
    let server =
      switch address {
      case .host(let host, let port): try await bootstrap.bind(host: host, port: port).get()
      case .descriptor(let descriptor): try await bootstrap.withBoundSocket(descriptor).get()
      }
    isListening(server.localAddress?.port)
    try await withGracefulShutdownHandler {
      try await server.closeFuture.get()
    } onGracefulShutdown: {
      server.close(promise: nil)
    }
    try? await Task.sleep(for: Self.grace)
  }

  private func configure(_ channel: any Channel) throws {
    var limits = NIOHTTPDecoderLimitConfiguration()
    limits.maxHeaderFieldSize = 16 << 10
    limits.maxHeaderListSize = 32 << 10
    limits.maxHeaderFieldCount = 100
    let pipeline = channel.pipeline.syncOperations
    // Swift HTTP Types has validated the headers.
    try pipeline.configureHTTPServerPipeline(
      withPipeliningAssistance: true, withErrorHandling: true, withOutboundHeaderValidation: false,
      withEncoderConfiguration: .init(), withDecoderLimitConfiguration: limits)
    try pipeline.addHandler(HTTP1ToHTTPServerCodec(secure: false))
    try pipeline.addHandler(HTTPConnection(responder, logger))
  }
}

/// The number of open connections.
private final class OpenConnections: Sendable {
  private let count = Atomic(0)

  func add() -> Int { count.add(1, ordering: .relaxed).newValue }
  func remove() { count.subtract(1, ordering: .relaxed) }
}
