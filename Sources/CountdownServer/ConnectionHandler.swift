import Countdowns
import NIOCore
import NIOPosix
import Wire

/// One connection: bytes in, commands to the dispatcher, output out.
///
/// A client that does not read its replies is not read from either, so what it can make the daemon
/// keep is bounded. Events it has not read are bounded by the dispatcher, which closes it.
///
/// Many libraries write a whole pipeline before they read the first reply. Each side would wait for
/// the other for ever, were there not room for the replies, and then for the rest of the commands.
final class ConnectionHandler: ChannelDuplexHandler {
  typealias InboundIn = ByteBuffer
  typealias InboundOut = Never
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  /// What may wait even where `max-output` is little, and at most however much that is.
  private static let waiting = 64 << 10...4 << 20
  /// How long a connection that is being closed may take to read the rest.
  private static let lingerTime = TimeAmount.seconds(2)

  private let server: Server
  /// Replies that wait to be read before more commands are done, and commands that wait to be done
  /// before more are read; in bytes.
  private let mostWaiting: Int
  private var decoder: RequestDecoder
  private var session: Session?
  private var context: ChannelHandlerContext?

  /// Commands have come that have not been done.
  private var hasMore = false
  /// Reading is put off until the client has read what waits for it.
  private var isReadPutOff = false
  private var willGoOn = false
  /// Once all that was handed on is written the client may have room for more.
  private var isDrainAwaited = false
  private var inputHasEnded = false
  private var isEnding = false

  init(server: Server) {
    self.server = server
    let output = server.settings.dispatcher
    let most = min(output.maxOutput, output.maxOutputPerUser) / 2
    mostWaiting = min(max(most, Self.waiting.lowerBound), Self.waiting.upperBound)
    decoder = RequestDecoder(limits: server.settings.request)
  }

  var transport: TransportFacts {
    let descriptor = try? context?.pipeline.syncOperations.withUnsafeTransportIfAvailable(
      of: NIOBSDSocket.Handle.self
    ) { $0 }
    return TransportFacts(
      descriptor: descriptor ?? -1,
      path: context?.channel.localAddress?.pathname ?? "", unreadInput: decoder.bufferedBytes)
  }

  // MARK: Coming and going

  func channelActive(context: ChannelHandlerContext) {
    self.context = context
    // Who cannot be told apart from others is not let in.
    guard let peer = Peer.read(from: context) else {
      context.close(promise: nil)
      return
    }
    switch server.admit(self, peer) {
    case .success(let session):
      self.session = session
    case .failure(let refusal):
      var output = RESPEncoder()
      output.error(refusal.text)
      isEnding = true
      let buffer = context.channel.allocator.buffer(bytes: output.bytes)
      context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
      context.close(promise: nil)
    }
  }

  func channelInactive(context: ChannelHandlerContext) {
    self.context = nil
    guard let session else { return }
    self.session = nil
    session.isClosing = true
    server.leave(session)
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    guard case ChannelEvent.inputClosed? = event as? ChannelEvent else { return }
    inputHasEnded = true
    process()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    // The peer is gone, or the kernel says so: nothing is left to be said.
    context.close(promise: nil)
  }

  // MARK: Input

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    guard let session, !session.isClosing else { return }
    let bytes = unwrapInboundIn(data)
    decoder.append(bytes.readableBytesSpan)
    // It has had its turn; the rest of what came is done in the next one.
    if !willGoOn { process() }
  }

  func read(context: ChannelHandlerContext) {
    guard !mayRead else { return context.read() }
    isReadPutOff = true
    if let session { server.dispatcher.holdBack(session) }
  }

  private var mayRead: Bool {
    !(isStuck || willGoOn)
      || (decoder.bufferedBytes < mostWaiting && session.map(server.dispatcher.isFull) != true)
  }

  /// Whether the client has to read before more is done for it.
  private var isStuck: Bool { session.map(isStuck) ?? false }

  private func isStuck(_ session: Session) -> Bool {
    guard !session.isWaiting else { return true }
    let waiting =
      session.unwrittenBytes + session.outbound.count + session.heldBytes
      + session.output.bytes.count
    // Once that is written it goes on; who has nothing to read would wait for others, and gets an
    // error instead.
    return waiting >= mostWaiting || (waiting > 0 && server.dispatcher.isFull(session))
  }

  /// Executes what has come, as far as this turn allows.
  private func process() {
    guard let session, !isEnding else { return }
    server.openBatch()
    let dispatcher: Dispatcher = server.dispatcher
    var now = server.now
    let share = dispatcher.share(of: session, server.settings.commandsPerTurn)
    var left = share
    var isDrained = false
    dispatcher.beginLaps()
    defer { dispatcher.endLaps() }
    do {
      while !session.isClosing, !isStuck(session), left > 0, !dispatcher.mayHaveRoomSoon(session) {
        if session.isUnfinished {
          left -= dispatcher.goOn(session, at: now)
        } else if try decoder.next() {
          decoder.withArguments { left -= dispatcher.execute($0, for: session, at: now) }
        } else {
          isDrained = true
          break
        }
        // One look at the clock does for a turn; but CLOCK ADVANCE moves a virtual one in between.
        if let virtual = server.virtualClock { now = virtual.now }
      }
    } catch {
      dispatcher.refuse(session, error)
      server.logger.notice(
        "protocol error: \(error)",
        metadata: [
          "connection": "\(session.client.connection)", "uid": "\(session.client.uid)",
          "pid": "\(session.pid)",
        ])
    }
    hasMore = !isDrained
    if hasMore, !session.isClosing {
      if isStuck(session) { dispatcher.holdBack(session) } else { goOnLater(first: share == 0) }
    }
    if isDrained, inputHasEnded { session.isClosing = true }
    if session.isClosing { dispatcher.touch(session) }
  }

  /// Others come first.
  ///
  /// - Parameter first: it had no turn in this round, so it comes before those that had one.
  private func goOnLater(first: Bool = false) {
    guard !willGoOn, let context else { return }
    willGoOn = true
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    server.yieldToSockets(first: first) { _ in
      bound.value.willGoOn = false
      bound.value.process()
    }
  }

  // MARK: Output

  /// Writes what the session has been sent; or keeps it until the client reads on.
  func flush() {
    guard let session, let context else { return }
    let channel = context.channel
    if channel.isWritable, !session.outbound.isEmpty {
      // Until there is enough on its way; a client that is slow does not have all of it copied.
      while channel.isWritable, let piece = session.outbound.popFirst() {
        hand(piece, to: context)
      }
      context.flush()
    }
    noteBacklog(context, session)
    server.dispatcher.account(session)
    // Something it was told may not be said yet.
    if session.isClosing, session.heldBatches == 0 { end() }
    takeUp()
  }

  private func hand(_ piece: ArraySlice<UInt8>, to context: ChannelHandlerContext) {
    context.write(wrapOutboundOut(context.channel.allocator.buffer(bytes: piece)), promise: nil)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    guard let session else { return }
    noteBacklog(context, session)
    server.dispatcher.account(session)
    guard context.channel.isWritable else { return }
    session.releaseTicks()
    flush()
    process()
  }

  private func noteBacklog(_ context: ChannelHandlerContext, _ session: Session) {
    session.isBackedUp = !context.channel.isWritable
    session.unwrittenBytes =
      (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    guard session.unwrittenBytes > 0, !isDrainAwaited, !isEnding else { return }
    isDrainAwaited = true
    let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
    let end = context.channel.allocator.buffer(capacity: 0)
    context.writeAndFlush(wrapOutboundOut(end)).whenSuccess { bound.value.noteDrained() }
  }

  /// All that was handed on by some moment is written; nothing else would tell.
  private func noteDrained() {
    isDrainAwaited = false
    guard context != nil else { return }
    flush()
    server.openBatch()
  }

  /// Goes on with commands, and with reading, if the client has room for replies.
  func takeUp() {
    guard let session, let context else { return }
    if hasMore, !session.isClosing {
      if isStuck(session) { server.dispatcher.holdBack(session) } else { goOnLater() }
    }
    guard isReadPutOff else { return }
    guard mayRead else { return server.dispatcher.holdBack(session) }
    isReadPutOff = false
    context.read()
  }

  // MARK: Ending

  /// Writes what is left to be written, and closes; at once if the client does not read.
  func end() {
    guard let context, let session, !isEnding else { return }
    isEnding = true
    session.isClosing = true
    let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
    while let piece = session.outbound.popFirst() { hand(piece, to: context) }
    let end = context.channel.allocator.buffer(capacity: 0)
    context.writeAndFlush(wrapOutboundOut(end)).whenComplete { _ in
      bound.value.close(promise: nil)
    }
    let patience = context.eventLoop.scheduleTask(in: Self.lingerTime) {
      bound.value.close(promise: nil)
    }
    context.channel.closeFuture.whenComplete { _ in patience.cancel() }
    noteBacklog(context, session)
    server.dispatcher.account(session)
  }

  /// Closes at once: what has not been written is freed.
  func abort() { context?.close(promise: nil) }
}
