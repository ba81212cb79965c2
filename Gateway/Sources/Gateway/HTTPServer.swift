import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
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
      // Keeps unread output in this process, where it is bounded, and not in the kernel. Linux
      // gives the size to all connections of the socket.
      .serverChannelOption(.socketOption(.so_sndbuf), value: 64 << 10)
      .serverChannelOption(.maxMessagesPerRead, value: 64)
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
    try channel.syncOptions?.setOption(
      .writeBufferWaterMark, value: .init(low: 8 << 10, high: EventStream.mostUnread))
    let decoder = ByteToMessageHandler(HTTPRequestDecoder(limitConfiguration: limits))
    let pipeline = channel.pipeline.syncOperations
    try pipeline.addHandler(decoder)
    try pipeline.addHandler(HTTPConnection(decoder, responder, logger))
  }
}

/// The number of open connections.
private final class OpenConnections: Sendable {
  private let count = Atomic(0)

  func add() -> Int { count.add(1, ordering: .relaxed).newValue }
  func remove() { count.subtract(1, ordering: .relaxed) }
}
