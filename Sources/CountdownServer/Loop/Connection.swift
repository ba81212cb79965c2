import Countdowns
import Glibc
import Runtime
import Wire

/// One connection: bytes in, commands to the dispatcher, output out.
///
/// A client that does not read its replies is not read from either, which bounds its memory in the
/// daemon. The dispatcher bounds unread events: it closes the connection.
///
/// Many libraries write a whole pipeline before they read the first reply. Without room for some
/// replies, and then for the remaining commands, each side would wait for the other forever.
final class Connection: EventSource {
  /// The range of `maximumWaiting` in bytes, however small or large `max-output` is.
  private static let waiting = 64 << 10...4 << 20
  /// The size of about ten commands.
  private static let fewBytes = 512
  /// How long a client may take to read the rest while its connection is being closed.
  private static let lingerMilliseconds: UInt64 = 2_000
  private static let logLookMilliseconds: UInt64 = 10

  let session: Session
  var descriptor: Int32 { session.descriptor }
  /// The server outlives its connections. (Counting references would cost more than the calls.)
  private unowned(unsafe) let server: Server
  /// The limit for unread replies, beyond which no commands are executed, and for unexecuted
  /// commands, beyond which nothing is read; in bytes.
  private let maximumWaiting: Int
  private var decoder: RequestDecoder

  private enum Stage {
    case open
    /// The remaining output is written; then it closes.
    case ending
    case closed
  }
  private var stage = Stage.open

  /// Commands that have arrived and are not executed yet.
  private enum Work {
    case none
    /// There may be some. They wait for room.
    case waiting
    /// The loop comes back to them.
    case queued
  }
  private var work = Work.none
  /// Whether commands wait until the log has taken the lines that they have caused.
  private var isAheadOfLog = false

  private var inputHasEnded = false
  /// Whether the client has closed its socket. Commands that it has sent are still executed.
  private var hasHungUp = false

  init(_ session: Session, server: Server) {
    self.session = session
    unsafe self.server = server
    let output = server.settings.dispatcher
    let maximum = min(output.maxOutput, output.maxOutputPerUser) / 2
    maximumWaiting = min(max(maximum, Self.waiting.lowerBound), Self.waiting.upperBound)
    decoder = RequestDecoder(limits: server.settings.request)
  }

  var unreadInput: Int { decoder.bufferedBytes }

  // MARK: Events

  func ready(_ events: EventLoop.Events) {
    if events & EventLoop.writable != 0 { goOnWriting() }
    guard stage != .closed, events & ~EventLoop.writable != 0 else { return }
    if isReading { return read() }
    guard events & EventLoop.closed != 0 else { return }
    // The client reads nothing more, so commands that wait for it to read never run.
    if stage == .ending || next == nil && !isAheadOfLog { return close() }
    hasHungUp = true
    updateInterest()
  }

  /// Tells the loop to wait for what is possible at present: reading, writing, both or neither.
  private func updateInterest() {
    guard stage != .closed else { return }
    var interest: EventLoop.Events = 0
    if isReading { interest |= EventLoop.readable }
    if session.isBackedUp { interest |= EventLoop.writable }
    let isWatched = unsafe server.loop.update(
      descriptor, hasHungUp && interest == 0 ? nil : interest)
    if !isWatched { close() }
  }

  // MARK: Input

  private var isReading: Bool { !inputHasEnded && stage == .open && mayRead }

  private var mayRead: Bool {
    unsafe !(next == nil || work == .queued)
      || (decoder.bufferedBytes < maximumWaiting && !server.dispatcher.isFull(session))
  }

  /// What may be executed; nil while that has to wait: for replies to earlier commands, or for the
  /// client to read.
  private var next: Session.Step? {
    guard let next = session.next, !isAheadOfLog else { return nil }
    let waiting = session.outbound.count + session.heldBytes + session.output.bytes.count
    // A client whose user has no room for output continues once its own output is written. One
    // without output would have to wait for others, and gets an error instead.
    let isFull = unsafe waiting > 0 && server.dispatcher.isFull(session)
    return isFull || waiting >= maximumWaiting ? nil : next
  }

  private func read() {
    let buffer = unsafe server.loop.readBuffer
    let count = unsafe Glibc.read(descriptor, buffer.baseAddress, buffer.count)
    if count > 0 {
      unsafe server.noteInput(bytes: count)
      unsafe decoder.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]).bytes)
      // Clients that send much wait for those that send little.
      if count > Self.fewBytes { goOnLater() } else if work != .queued { process() }
    } else if count == 0 {
      inputHasEnded = true
      if work == .queued { updateInterest() } else { process() }
    } else if errno != EAGAIN, errno != EINTR {
      close()
    }
  }

  /// Executes commands that have arrived, up to the session's share of this turn.
  private func process() {
    guard stage == .open else { return }
    unsafe server.openBatch()
    let dispatcher: Dispatcher = unsafe server.dispatcher
    var now = unsafe server.now
    let share = unsafe dispatcher.beginTurn(session, server.settings.connections.commandsPerTurn)
    var left = share
    work = .waiting
    unsafe dispatcher.fairness.beginLaps(
      server.virtualClock == nil ? now.boot.microseconds : nil)
    defer { dispatcher.fairness.endLaps() }
    do {
      while !session.isClosing, let next, left > 0, !dispatcher.mayHaveRoomSoon(session) {
        if next == .part {
          left -= dispatcher.goOn(session, at: now)
        } else if try decoder.next() {
          decoder.withNext { dispatcher.prepare($0) }
          decoder.withArguments { left -= dispatcher.execute($0, for: session, at: now) }
        } else {
          work = .none
          break
        }
        // The clock is read once for a turn; but CLOCK ADVANCE moves a virtual clock in between.
        if let virtual = unsafe server.virtualClock { now = virtual.now }
      }
    } catch {
      dispatcher.refuse(session, error)
      unsafe server.logger.notice(
        "protocol error: \(error)",
        metadata: [
          "connection": "\(session.client.connection)", "uid": "\(session.client.uid)",
          "pid": "\(session.pid)",
        ])
    }
    if work == .waiting, !session.isClosing, next != nil { goOnLater(isOverlooked: left == share) }
    endIfDone()
    if session.isClosing { dispatcher.touch(session) }
    waitForRoom()
  }

  /// Closes the connection if the client has ended its input and all its commands are done.
  private func endIfDone() {
    guard inputHasEnded, work == .none, session.isAnswered, !session.isClosing else { return }
    session.isClosing = true
    unsafe server.dispatcher.touch(session)
    unsafe server.openBatch()
  }

  /// Continues later, after the other work in the loop's queue.
  ///
  /// - Parameter isOverlooked: whether nothing could be executed in this iteration.
  private func goOnLater(isOverlooked: Bool = false) {
    guard work != .queued else { return }
    work = .queued
    unsafe server.loop.enqueue(isOverlooked: isOverlooked) { [self] in
      work = .waiting
      process()
    }
  }

  /// Executes no more commands until the log has caught up, or hangs.
  func waitForLog() {
    guard !isAheadOfLog else { return }
    isAheadOfLog = true
    lookAtLog()
  }

  private func lookAtLog() {
    unsafe server.loop.schedule(inMilliseconds: Self.logLookMilliseconds) { [weak self] in
      guard let self, stage != .closed else { return }
      if unsafe server.hooks.isLogBehind() { return lookAtLog() }
      isAheadOfLog = false
      goOn()
    }
  }

  /// Continues with commands and with reading, if there is room for replies.
  func goOn() {
    guard stage != .closed else { return }
    if work == .waiting, !session.isClosing, next != nil { goOnLater() }
    endIfDone()
    waitForRoom()
  }

  /// If commands depend on other connections of the user, resumes once those have read.
  private func waitForRoom() {
    if !mayRead || (work == .waiting && next == nil) { unsafe server.dispatcher.holdBack(session) }
    updateInterest()
  }

  // MARK: Output

  /// Writes output that is stored, after all earlier output.
  func write(_ bytes: [UInt8]) {
    session.outbound.append(bytes)
    if !session.isBackedUp { writeOutbound() }
    finishWriting()
  }

  /// Writes the stored output of the batch: at once, unless earlier output is waiting.
  func writeOutput() {
    guard session.outbound.isEmpty else { return write(session.takeOutput()) }
    let length = session.output.bytes.count
    let count = unsafe length == 0 ? 0 : session.output.bytes.withUnsafeBytes(send)
    guard count == length else {
      // The rest waits. If there was an error, `write` meets it again.
      write(Array(session.takeOutput()[max(count, 0)...]))
      return
    }
    session.dropOutput()
    finishWriting()
  }

  private func goOnWriting() {
    writeOutbound()
    guard stage != .closed, !session.isBackedUp else { return finishWriting() }
    // All output is written, so there is room for ticks, commands and snapshots that waited.
    session.releaseTicks()
    writeOutbound()
    finishWriting()
    if stage != .closed, work != .queued { process() }
    unsafe server.openBatch()
  }

  /// Writes as much as the socket takes.
  private func writeOutbound() {
    session.isBackedUp = false
    while stage != .closed, let count = unsafe session.outbound.withFirst({ unsafe send($0) }) {
      if count < 0 {
        if errno == EINTR { continue }
        guard errno == EAGAIN else { return close() }
        session.isBackedUp = true
        return
      }
      session.outbound.removeFirst(count)
    }
  }

  /// Sends bytes. If the client has closed, this is an error, not a signal.
  private func send(_ bytes: UnsafeRawBufferPointer) -> Int {
    unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
  }

  private func finishWriting() {
    unsafe server.dispatcher.account(session)
    guard stage != .closed else { return }
    if stage == .ending {
      if session.outbound.isEmpty { close() } else { updateInterest() }
      return
    }
    // An earlier batch may have output for this connection that cannot be written yet.
    if session.isClosing, session.heldBatches == 0 { return end() }
    goOn()
  }

  // MARK: Ending

  /// Writes the remaining output, then closes; at the latest after `lingerMilliseconds`.
  func end() {
    guard stage == .open else { return }
    stage = .ending
    session.isClosing = true
    writeOutbound()
    finishWriting()
    guard stage == .ending else { return }
    unsafe server.loop.schedule(inMilliseconds: Self.lingerMilliseconds) { [weak self] in
      self?.close()
    }
  }

  /// Closes at once, and frees output that has not been written.
  func close() {
    guard stage != .closed else { return }
    stage = .closed
    unsafe server.loop.remove(descriptor)
    Glibc.close(descriptor)
    unsafe server.leave(self)
  }
}
