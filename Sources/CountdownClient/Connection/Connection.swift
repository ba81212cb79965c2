import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
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
  /// - Parameters:
  ///   - timeout: the time limit; nil: none.
  ///   - unsolicited: receives everything that is not a reply, mostly pushes; called on the event
  ///     loop.
  package static func open(
    path: String, group: (any EventLoopGroup)? = nil, name: String? = nil,
    timeout: Duration? = nil,
    unsolicited: @escaping @Sendable (RESPValue) -> Void
  ) async throws -> Connection {
    let greeting = Greeting()
    let connection = try await connect(
      path: path, group: group ?? MultiThreadedEventLoopGroup.singleton
    ) { if !greeting.takes($0) { unsolicited($0) } }
    do {
      var hello = ["HELLO", "3"]
      if let name { hello += ["SETNAME", name] }
      let limit = timeout.map(TimeLimit.init)
      let greetings = connection.write([hello.map { Array($0.utf8) }])
      let names = connection.write(
        [
          ["CLIENT", "SETINFO", "LIB-NAME", "countdown-client"],
          ["CLIENT", "SETINFO", "LIB-VER", Client.version],
        ].map { $0.map { Array($0.utf8) } })
      // A daemon that refuses the client answers this one, and closes the connection.
      let answer = try await connection.wait(for: greetings, limit)[0]
      if case .error(let text) = answer { throw CountdownClientError(reply: text) }
      // An older daemon may not know SETINFO, which is harmless.
      _ = try await connection.wait(for: names, limit)
    } catch CountdownClientError.protocolViolation {
      connection.close()
      throw CountdownClientError.notCountdownd(path: path)
    } catch CountdownClientError.unsure(let reason) {
      connection.close()
      throw greeting.refusal ?? reason.errorBeforeSending
    } catch {
      connection.close()
      throw greeting.refusal ?? error
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

    private let state = NIOLockedValueBox(State())

    var refusal: CountdownClientError? { state.withLockedValue { $0.refusal } }

    func takes(_ value: RESPValue) -> Bool {
      guard case .error(let text) = value else { return false }
      return state.withLockedValue { state in
        if !state.isOver { state.refusal = state.refusal ?? CountdownClientError(reply: text) }
        return !state.isOver
      }
    }

    func end() { state.withLockedValue { $0.isOver = true } }
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

  /// Closes the connection; calls under way fail with `reason`.
  func close(_ reason: CountdownClientError) {
    channel.triggerUserOutboundEvent(reason, promise: nil)
  }

  /// Starts or stops reading from the socket. The daemon holds back output that is not read.
  func setReading(_ reading: Bool) {
    channel.setOption(.autoRead, value: reading).whenFailure { _ in }
  }

  /// Sends a command and returns its reply, errors as values.
  package func send(_ arguments: [[UInt8]]) async throws -> RESPValue {
    try await send(all: [arguments], nil)[0]
  }

  /// Sends commands in one write and returns their replies in order, errors as values.
  ///
  /// - Throws: `CountdownClientError.unsure` if the commands have been written; otherwise
  ///   `CancellationError`, `.timedOut` or `.connectionClosed`, and none of them runs.
  func send(all commands: [[[UInt8]]], _ limit: TimeLimit?) async throws -> [RESPValue] {
    try Task.checkCancellation()
    return try await wait(for: write(commands), limit)
  }

  /// Waits for replies until the task is cancelled or the time is over.
  private func wait(for exchange: Exchange, _ limit: TimeLimit?) async throws -> [RESPValue] {
    let timer = limit.map { limit in
      channel.eventLoop.scheduleTask(in: limit.left) { exchange.end(.timedOut(limit.duration)) }
    }
    defer { timer?.cancel() }
    do {
      return try await withTaskCancellationHandler {
        var values: [RESPValue] = []
        for reply in exchange.promises { values.append(try await reply.futureResult.get()) }
        return values
      } onCancel: {
        exchange.end(.cancelled)
      }
    } catch {
      throw CountdownClientError.converting(error)
    }
  }

  /// Sends commands in one write and returns their future replies in order.
  package func pipeline(_ commands: [[String]]) -> [EventLoopFuture<RESPValue>] {
    pipeline(commands.map { $0.map { Array($0.utf8) } })
  }

  package func pipeline(_ commands: [[[UInt8]]]) -> [EventLoopFuture<RESPValue>] {
    write(commands).promises.map(\.futureResult)
  }

  /// Sends a command and returns its future reply. Closes the connection if none arrives in time.
  func reply(to command: [String], within limit: Duration?) -> EventLoopFuture<RESPValue> {
    let reply = pipeline([command])[0]
    if let limit {
      let timer = channel.eventLoop.scheduleTask(in: TimeLimit(limit).left) { [channel] in
        channel.close(promise: nil)
      }
      reply.whenComplete { _ in timer.cancel() }
    }
    return reply
  }

  /// Subscribes and unsubscribes, in one write; returns the future answers in order. Each command
  /// has one channel or pattern, so that it has one answer: a confirmation or an error.
  func subscribe(_ commands: [[[UInt8]]]) -> [EventLoopFuture<RESPValue>] {
    write(commands, isConfirmed: true).promises.map(\.futureResult)
  }

  /// Sends commands in one write without waiting for replies: `unsolicited` receives them all.
  package func sendWithoutReplies(_ commands: [[[UInt8]]]) {
    _ = write(commands, expectingReplies: false)
  }

  private func write(
    _ commands: [[[UInt8]]], expectingReplies: Bool = true, isConfirmed: Bool = false
  ) -> Exchange {
    var bytes: [UInt8] = []
    for arguments in commands { RESPRequest.append(arguments, to: &bytes) }
    let promises =
      expectingReplies
      ? commands.map { _ in channel.eventLoop.makePromise(of: RESPValue.self) } : []
    let exchange = Exchange(
      bytes: ByteBuffer(bytes: bytes), promises: promises, isConfirmed: isConfirmed)
    // `ReplyHandler` fails what was written; a closed channel has none left. This comes first, so
    // that it is known by then what was not.
    let written = channel.eventLoop.makePromise(of: Void.self)
    written.futureResult.whenFailure { _ in exchange.cutShort() }
    channel.writeAndFlush(exchange, promise: written)
    return exchange
  }

  // MARK: Connecting

  /// The maximum length of a socket path, in bytes: `sun_path` without the final zero.
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
        let reason = unsafe String(cString: strerror(error.errnoCode))
        throw CountdownClientError.connectionFailed(path: path, reason: reason)
      }
    } catch {
      throw CountdownClientError.connectionFailed(path: path, reason: "\(error)")
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
