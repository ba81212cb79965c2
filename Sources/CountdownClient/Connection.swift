import NIOCore
import NIOPosix
import Synchronization
import Wire

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

/// One connection to the daemon that speaks RESP3.
package final class Connection: Sendable {
  private let channel: any Channel

  private init(channel: any Channel) {
    self.channel = channel
  }

  // The event loop keeps an open channel alive; nobody would be left to close it.
  deinit { close() }

  /// Connects and shakes hands.
  ///
  /// - Parameter unsolicited: what comes without having been asked, pushes above all; called on
  ///   the event loop.
  /// - Throws: `CountdownClientError`
  package static func open(
    path: String, group: (any EventLoopGroup)? = nil, name: String? = nil,
    unsolicited: @escaping @Sendable (RESPValue) -> Void
  ) async throws -> Connection {
    let greeting = Greeting()
    let connection = try await connect(
      path: path, group: group ?? MultiThreadedEventLoopGroup.singleton
    ) { if !greeting.takes($0) { unsolicited($0) } }
    do {
      var hello = ["HELLO", "3"]
      if let name { hello += ["SETNAME", name] }
      let replies = connection.pipeline([
        hello, ["CLIENT", "SETINFO", "LIB-NAME", "countdown-client"],
        ["CLIENT", "SETINFO", "LIB-VER", CountdownClient.version],
      ])
      let answer = try await replies[0].get()
      if case .error(let text) = answer { throw CountdownClientError(reply: text) }
      // An older daemon, or another server of this protocol, may not know SETINFO: no harm.
      for reply in replies[1...] { _ = try await reply.get() }
    } catch CountdownClientError.protocolViolation {
      connection.close()
      throw CountdownClientError.notCountdownd(path: path)
    } catch {
      connection.close()
      throw greeting.refusal ?? error
    }
    greeting.end()
    return connection
  }

  /// Who is turned away is told so before it has asked anything.
  private final class Greeting: Sendable {
    private struct State {
      var isOver = false
      var refusal: CountdownClientError?
    }

    private let state = Mutex(State())

    var refusal: CountdownClientError? { state.withLock { $0.refusal } }

    func takes(_ value: RESPValue) -> Bool {
      guard case .error(let text) = value else { return false }
      return state.withLock { state in
        if !state.isOver { state.refusal = state.refusal ?? CountdownClientError(reply: text) }
        return !state.isOver
      }
    }

    func end() { state.withLock { $0.isOver = true } }
  }

  /// Whether the other end is still there, as far as is known.
  package var isActive: Bool { channel.isActive }

  /// Returns once the connection is closed.
  package func closed() async {
    try? await channel.closeFuture.get()
  }

  package func close() {
    channel.close(promise: nil)
  }

  /// Whether to go on reading from the socket: the daemon holds back what is not read.
  func setReading(_ reading: Bool) {
    channel.setOption(.autoRead, value: reading).whenFailure { _ in }
  }

  /// Sends a command and returns its reply, errors as values.
  package func send(_ arguments: [[UInt8]]) async throws -> RESPValue {
    let reply = write([arguments], expectingReplies: true)[0]
    return try await withTaskCancellationHandler {
      try await reply.futureResult.get()
    } onCancel: {
      // The reply will still come, and find nobody waiting: a promise takes the first result only.
      reply.fail(CancellationError())
    }
  }

  /// Sends commands in one write.
  package func pipeline(_ commands: [[String]]) -> [EventLoopFuture<RESPValue>] {
    write(commands.map { $0.map { Array($0.utf8) } }, expectingReplies: true).map(\.futureResult)
  }

  /// Sends a command whose answers are pushes.
  package func sendWithoutReply(_ arguments: [[UInt8]]) { sendWithoutReplies([arguments]) }

  /// Sends such commands in one write.
  func sendWithoutReplies(_ commands: [[[UInt8]]]) {
    _ = write(commands, expectingReplies: false)
  }

  private func write(
    _ commands: [[[UInt8]]], expectingReplies: Bool
  ) -> [EventLoopPromise<RESPValue>] {
    var bytes: [UInt8] = []
    for arguments in commands { RESPRequest.append(arguments, to: &bytes) }
    let promises =
      expectingReplies
      ? commands.map { _ in channel.eventLoop.makePromise(of: RESPValue.self) } : []
    channel.writeAndFlush(Request(bytes: ByteBuffer(bytes: bytes), promises: promises))
      .whenFailure { _ in
        // A channel that is closed already has no handler left to do this.
        for promise in promises { promise.fail(CountdownClientError.connectionClosed) }
      }
    return promises
  }

  // MARK: Connecting

  /// What fits into `sockaddr_un.sun_path` with its final zero.
  private static let pathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private static func connect(
    path: String, group: any EventLoopGroup,
    unsolicited: @escaping @Sendable (RESPValue) -> Void
  ) async throws -> Connection {
    guard path.utf8.count <= pathLimit else {
      throw CountdownClientError.pathTooLong(path: path, limit: pathLimit)
    }
    do {
      let channel = try await ClientBootstrap(group: group)
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(
              ReplyHandler(unsolicited: unsolicited))
          }
        }
        .connect(unixDomainSocketPath: path).get()
      return Connection(channel: channel)
    } catch let error as IOError {
      switch error.errnoCode {
      case ECONNREFUSED where !isSocket(path):
        throw CountdownClientError.notASocket(path: path)
      case ENOENT, ECONNREFUSED, ENOTDIR:
        throw CountdownClientError.daemonNotRunning(path: path)
      case EACCES, EPERM:
        throw CountdownClientError.permissionDenied(path: path, group: groupName(of: path))
      default:
        let reason = String(cString: strerror(error.errnoCode))
        throw CountdownClientError.connectionFailed(path: path, reason: reason)
      }
    } catch {
      throw CountdownClientError.connectionFailed(path: path, reason: "\(error)")
    }
  }

  private static func isSocket(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
  }

  /// The group that may use the socket, or enter the directory that hides it; nil where none may but
  /// that of root, which is not for joining.
  private static func groupName(of path: String) -> String? {
    var status = stat()
    var needed = S_IWGRP
    if stat(path, &status) != 0 {
      guard let slash = path.lastIndex(of: "/"), slash > path.startIndex,
        stat(String(path[..<slash]), &status) == 0
      else { return nil }
      needed = S_IXGRP
    }
    guard status.st_gid != 0, status.st_mode & needed != 0 else { return nil }
    var entry = group()
    var found: UnsafeMutablePointer<group>?
    var buffer = [CChar](repeating: 0, count: 4096)
    guard getgrgid_r(status.st_gid, &entry, &buffer, buffer.count, &found) == 0, found != nil
    else { return String(status.st_gid) }
    return String(cString: entry.gr_name)
  }
}
