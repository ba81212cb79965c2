import Glibc
import NIOCore
import NIOPosix

/// The way back to an event loop that leads past all its sockets.
///
/// The loop runs all tasks it has before it looks at sockets, and those that these make or that
/// other threads send meanwhile as well. A pipe is a socket like any other to it: what is read
/// there has waited in line with everybody's commands.
///
/// Confined to the loop.
final class AfterSockets: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let writeEnd: Int32
  private let body: () -> Void
  private var isOnItsWay = false

  private init(writeEnd: Int32, body: @escaping () -> Void) {
    self.writeEnd = writeEnd
    self.body = body
  }

  deinit { close(writeEnd) }

  /// Must be called on `loop`.
  ///
  /// - Parameter body: what is to be done each time sockets have been looked at.
  static func open(
    on loop: any EventLoop, _ body: @escaping () -> Void
  ) throws -> (AfterSockets, EventLoopFuture<any Channel>) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw IOError(errnoCode: errno, reason: "pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    let handler = AfterSockets(writeEnd: ends[1], body: body)
    let bound = NIOLoopBound(handler, eventLoop: loop)
    let channel = NIOPipeBootstrap(group: loop)
      // Else it would be read again before other sockets are looked at.
      .channelOption(.maxMessagesPerRead, value: 1)
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(bound.value)
        }
      }
      .takingOwnershipOfDescriptor(input: ends[0])
    return (handler, channel)
  }

  /// Has `body` called once sockets have been looked at.
  func comeBack() {
    guard !isOnItsWay else { return }
    var byte: UInt8 = 0
    // There is room, as one byte is in the pipe at most. Nobody reads it any more once the loop closes
    // its channels, and what is due by then is left to the next start.
    isOnItsWay = write(writeEnd, &byte, 1) == 1
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    isOnItsWay = false
    body()
  }
}
