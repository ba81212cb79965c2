import Countdowns
import Glibc
import Wire

/// One connection: bytes in, commands to the dispatcher, output out.
///
/// A client that does not read its replies is not read from either, so what it can make the daemon
/// keep is bounded. Events it has not read are bounded by the dispatcher, which closes it.
///
/// Many libraries write a whole pipeline before they read the first reply. Each side would wait for
/// the other forever if there were not some room for replies, and then for the rest of the
/// commands.
final class Connection: EventSource {
  /// What may wait even where `max-output` is little, and at most however much that is.
  private static let waiting = 64 << 10...4 << 20
  /// About ten commands.
  private static let fewBytes = 512
  /// How long a connection that is being closed may take to read the rest.
  private static let lingerMilliseconds: UInt64 = 2_000

  let session: Session
  var descriptor: Int32 { session.descriptor }
  /// Outlives its connections. (Counting references to it would take longer than asking.)
  private unowned(unsafe) let server: Server
  /// Replies that wait to be read before more commands are executed, and commands that wait to be
  /// executed before more are read; in bytes.
  private let mostWaiting: Int
  private var decoder: RequestDecoder

  /// Commands have come that have not been executed.
  private var hasMore = false
  private var willGoOn = false
  private var inputHasEnded = false
  /// The client has closed its socket. What it has sent is still executed.
  private var hasHungUp = false
  private var isEnding = false
  private(set) var isOpen = true

  init(_ session: Session, server: Server) {
    self.session = session
    self.server = server
    let output = server.settings.dispatcher
    let most = min(output.maxOutput, output.maxOutputPerUser) / 2
    mostWaiting = min(max(most, Self.waiting.lowerBound), Self.waiting.upperBound)
    decoder = RequestDecoder(limits: server.settings.request)
  }

  var unreadInput: Int { decoder.bufferedBytes }

  // MARK: Events

  func ready(_ events: EventLoop.Events) {
    if events & EventLoop.writable != 0 { goOnWriting() }
    guard isOpen, events & ~EventLoop.writable != 0 else { return }
    if isReading { return read() }
    guard events & EventLoop.closed != 0 else { return }
    // No replies will be read, so commands that wait for that never run.
    if isEnding || isStuck { return close() }
    hasHungUp = true
    updateInterest()
  }

  /// Waits for what is possible at present.
  private func updateInterest() {
    guard isOpen else { return }
    var interest: EventLoop.Events = 0
    if isReading { interest |= EventLoop.readable }
    if session.isBackedUp { interest |= EventLoop.writable }
    let isWatched = server.loop.update(descriptor, hasHungUp && interest == 0 ? nil : interest)
    if !isWatched { close() }
  }

  // MARK: Input

  private var isReading: Bool { !inputHasEnded && !isEnding && mayRead }

  private var mayRead: Bool {
    !(isStuck || willGoOn)
      || (decoder.bufferedBytes < mostWaiting && !server.dispatcher.isFull(session))
  }

  /// Whether the client has to read before more is done for it.
  private var isStuck: Bool {
    guard !session.isWaiting, session.pendingCount < Session.mostPending else { return true }
    let waiting = session.outbound.count + session.heldBytes + session.output.bytes.count
    // Once that is written it continues. A client that has nothing to read would wait for others,
    // and gets an error instead.
    return waiting >= mostWaiting || (waiting > 0 && server.dispatcher.isFull(session))
  }

  private func read() {
    let buffer = server.loop.readBuffer
    let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
    if count > 0 {
      decoder.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]).bytes)
      // Clients that send much wait for those that send little.
      if count > Self.fewBytes { goOnLater() } else if !willGoOn { process() }
    } else if count == 0 {
      inputHasEnded = true
      if willGoOn { updateInterest() } else { process() }
    } else if errno != EAGAIN, errno != EINTR {
      close()
    }
  }

  /// Executes what has come, as far as this turn allows.
  private func process() {
    guard !isEnding, isOpen else { return }
    server.openBatch()
    let dispatcher: Dispatcher = server.dispatcher
    var now = server.now
    let share = dispatcher.share(of: session, server.settings.commandsPerTurn)
    var left = share
    var isDrained = false
    dispatcher.beginLaps(server.virtualClock == nil ? now.boot.microseconds : nil)
    defer { dispatcher.endLaps() }
    do {
      while !session.isClosing, !isStuck, left > 0, !dispatcher.mayHaveRoomSoon(session) {
        if session.isUnfinished {
          left -= dispatcher.goOn(session, at: now)
        } else if try decoder.next() {
          decoder.withNext { dispatcher.prepare($0) }
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
    if hasMore, !session.isClosing, !isStuck { goOnLater(isOverlooked: left == share) }
    endIfDone()
    if session.isClosing { dispatcher.touch(session) }
    waitForRoom()
  }

  /// A client that sends nothing more has all of its replies once there is nothing to be done.
  private func endIfDone() {
    guard inputHasEnded, !hasMore, !willGoOn, session.pendingCount == 0, !session.isClosing
    else { return }
    session.isClosing = true
    server.dispatcher.touch(session)
    server.openBatch()
  }

  /// Others come first.
  ///
  /// - Parameter isOverlooked: nothing could be executed for it in this iteration.
  private func goOnLater(isOverlooked: Bool = false) {
    guard !willGoOn else { return }
    willGoOn = true
    server.loop.enqueue(isOverlooked: isOverlooked) { [self] in
      willGoOn = false
      process()
    }
  }

  /// Continues with commands, and with reading, if the client has room for replies.
  func goOn() {
    guard isOpen else { return }
    if hasMore, !session.isClosing, !isStuck { goOnLater() }
    endIfDone()
    waitForRoom()
  }

  /// If that depends on other connections of its user, it continues once they have read.
  private func waitForRoom() {
    if !mayRead || (hasMore && isStuck) { server.dispatcher.holdBack(session) }
    updateInterest()
  }

  // MARK: Output

  /// Writes what may be written, after what is to be written before.
  func write(_ bytes: [UInt8]) {
    session.outbound.append(bytes)
    if !session.isBackedUp { writeOutbound() }
    finishWriting()
  }

  /// Writes the output of the batch, which is stored: at once, unless something comes before it.
  func writeOutput() {
    guard session.outbound.isEmpty else { return write(session.takeOutput()) }
    let length = session.output.bytes.count
    let count = length == 0 ? 0 : session.output.bytes.withUnsafeBytes(send)
    guard count == length else {
      // What is left waits; an error is met again there.
      write(Array(session.takeOutput()[max(count, 0)...]))
      return
    }
    session.dropOutput()
    finishWriting()
  }

  private func goOnWriting() {
    writeOutbound()
    guard isOpen, !session.isBackedUp else { return finishWriting() }
    // It has read all of it, so there may be more: what waited, commands, snapshots.
    session.releaseTicks()
    writeOutbound()
    finishWriting()
    if isOpen, !willGoOn { process() }
    server.openBatch()
  }

  /// Writes as much as the socket takes.
  private func writeOutbound() {
    session.isBackedUp = false
    while isOpen, let count = session.outbound.withFirst({ send($0) }) {
      if count < 0 {
        if errno == EINTR { continue }
        guard errno == EAGAIN else { return close() }
        session.isBackedUp = true
        return
      }
      session.outbound.removeFirst(count)
    }
  }

  /// A closed client is an error, not a signal.
  private func send(_ bytes: UnsafeRawBufferPointer) -> Int {
    Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
  }

  private func finishWriting() {
    server.dispatcher.account(session)
    guard isOpen else { return }
    if isEnding {
      if session.outbound.isEmpty { close() } else { updateInterest() }
      return
    }
    // What a batch before has for it may not be written yet.
    if session.isClosing, session.heldBatches == 0 { return end() }
    goOn()
  }

  // MARK: Ending

  /// Writes what is left to be written, and closes; at the latest after a while.
  func end() {
    guard isOpen, !isEnding else { return }
    isEnding = true
    session.isClosing = true
    writeOutbound()
    finishWriting()
    guard isOpen else { return }
    server.loop.schedule(inMilliseconds: Self.lingerMilliseconds) { [weak self] in self?.close() }
  }

  /// Closes at once: what has not been written is freed.
  func close() {
    guard isOpen else { return }
    isOpen = false
    server.loop.remove(descriptor)
    Glibc.close(descriptor)
    server.leave(self)
  }
}
