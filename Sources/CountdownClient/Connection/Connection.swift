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

/// One RESP3 connection to the daemon.
package final class Connection: Sendable {
  private let channel: any Channel

  private init(channel: any Channel) {
    self.channel = channel
  }

  // The event loop keeps an open channel alive, so it must be closed here.
  deinit { close() }

  /// Connects and negotiates RESP3.
  ///
  /// - Parameter unsolicited: receives everything that is not a reply, mostly pushes; called on the
  ///   event loop.
  package static func open(
    path: String, group: (any EventLoopGroup)? = nil, name: String? = nil,
    unsolicited: @escaping @Sendable (RESPValue) -> Void
  ) async throws(CountdownClientError) -> Connection {
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
      // An older daemon may not know SETINFO, which is harmless.
      for reply in replies[1...] { _ = try await reply.get() }
    } catch CountdownClientError.protocolViolation {
      connection.close()
      throw .notCountdownd(path: path)
    } catch {
      connection.close()
      throw greeting.refusal ?? CountdownClientError(error)
    }
    greeting.end()
    return connection
  }

  /// Catches the refusal that a full daemon sends before it receives anything.
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

  /// Whether the connection is open, as far as the client knows.
  package var isActive: Bool { channel.isActive }

  /// Returns once the connection is closed.
  package func closed() async {
    try? await channel.closeFuture.get()
  }

  package func close() {
    channel.close(promise: nil)
  }

  /// Starts or stops reading from the socket. The daemon holds back output that is not read.
  func setReading(_ reading: Bool) {
    channel.setOption(.autoRead, value: reading).whenFailure { _ in }
  }

  /// Sends a command and returns its reply, errors as values.
  package func send(_ arguments: [[UInt8]]) async throws(CountdownClientError) -> RESPValue {
    let reply = write([arguments], expectingReplies: true)[0]
    do {
      return try await withTaskCancellationHandler {
        try await reply.futureResult.get()
      } onCancel: {
        // The reply still arrives and is dropped: only the first result of a promise counts.
        reply.fail(CountdownClientError.cancelled)
      }
    } catch {
      throw CountdownClientError(error)
    }
  }

  /// Sends commands in one write and returns their future replies in order.
  package func pipeline(_ commands: [[String]]) -> [EventLoopFuture<RESPValue>] {
    write(commands.map { $0.map { Array($0.utf8) } }, expectingReplies: true).map(\.futureResult)
  }

  /// Sends commands that are answered by pushes, in one write.
  package func sendWithoutReplies(_ commands: [[[UInt8]]]) {
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
        // A closed channel has no `ReplyHandler` left to fail them.
        for promise in promises { promise.fail(CountdownClientError.connectionClosed) }
      }
    return promises
  }

  // MARK: Connecting

  /// The maximum length of a socket path, in bytes: `sun_path` without the final zero.
  private static let pathLimit = MemoryLayout.size(ofValue: sockaddr_un().sun_path) - 1

  private static func connect(
    path: String, group: any EventLoopGroup,
    unsolicited: @escaping @Sendable (RESPValue) -> Void
  ) async throws(CountdownClientError) -> Connection {
    guard path.utf8.count <= pathLimit else {
      throw .pathTooLong(path: path, limit: pathLimit)
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
        throw .notASocket(path: path)
      case ENOENT, ECONNREFUSED, ENOTDIR:
        throw .daemonNotRunning(path: path)
      case EACCES, EPERM:
        throw .permissionDenied(path: path, group: groupName(of: path))
      default:
        let reason = unsafe String(cString: strerror(error.errnoCode))
        throw .connectionFailed(path: path, reason: reason)
      }
    } catch {
      throw .connectionFailed(path: path, reason: "\(error)")
    }
  }

  private static func isSocket(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFSOCK
  }

  /// Returns the group with access to the socket, or to its directory if that denies access; nil if
  /// no group but root's has it.
  private static func groupName(of path: String) -> String? {
    var status = stat()
    var needed = S_IWGRP
    if unsafe stat(path, &status) != 0 {
      guard let slash = path.lastIndex(of: "/"), slash > path.startIndex,
        unsafe stat(String(path[..<slash]), &status) == 0
      else { return nil }
      needed = S_IXGRP
    }
    guard status.st_gid != 0, status.st_mode & needed != 0 else { return nil }
    var entry = unsafe group()
    var found: UnsafeMutablePointer<group>?
    var buffer = [CChar](repeating: 0, count: 4096)
    guard unsafe getgrgid_r(status.st_gid, &entry, &buffer, buffer.count, &found) == 0,
      unsafe found != nil
    else { return String(status.st_gid) }
    return unsafe String(cString: entry.gr_name)
  }
}
