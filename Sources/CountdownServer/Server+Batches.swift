import CMalloc
import CountdownFleet
import CountdownStore
import Countdowns
import DispatchTimers
import Runtime

/// A batch: the commands of one iteration of the loop. At its end due timers run, changes are
/// stored, and replies and events are written.
extension Server {
  struct Batch {
    var isOpen = false
    /// Whether due work is left, which continues once the loop has served sockets.
    var isBehind = false
    /// Sessions that receive output of the batch that ends.
    var touched: [Session] = []
    /// The connection whose snapshots continued last.
    var lastSnapshot: UInt64 = 0
    /// When the memory in use was last read, and last returned because of its limit, in
    /// microseconds of the boot clock.
    var memoryRead: Int64 = 0
    var memoryTrimmed: Int64 = 0
    /// How many bytes of input have arrived since the last of them led to a reading.
    var inputSinceMemoryRead = 0
  }

  /// Begins a batch, unless one is open. The batch ends after this iteration of the loop.
  func openBatch() {
    guard !batch.isOpen else { return }
    batch.isOpen = true
    checkStore()
  }

  func endBatch() {
    batch.isOpen = false
    if loop.isRoundOver { dispatcher.fairness.beginRound() }
    passTime()
    let hasSnapshots = continueSnapshots()
    if let fleetServers {
      dispatcher.fleet?.flush()
      fleetServers.flush()
    }
    commitBatch()
    keepJournal()
    resumeHeldBack()
    armAlarms()
    returnMemory()
    if batch.isBehind || hasSnapshots { openBatch() }
  }

  // MARK: Time

  private func passTime() {
    // Timers that fell due while the daemon was down fire once everything is loaded.
    if !dispatcher.isLoading { passSlice() }
    if alarms.isHeartbeatDue(every: settings.watchdogInterval) { hooks.isAlive(status) }
  }

  /// Does due work for half a millisecond; then sockets come first. Looks at the clock after one
  /// step, two more, four more, and so on: a step takes long if it notifies many subscribers.
  private func passSlice() {
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    var steps = 1
    repeat {
      batch.isBehind = !dispatcher.advance(to: now, budget: steps)
      steps = min(steps * 2, Self.stepsPerLook)
    } while batch.isBehind && Int64(BootClock.now) < end
  }

  func armAlarms() {
    // Due work waits for the end of loading. If a slice leaves due work, the next batch follows at
    // once.
    if virtualClock == nil, !dispatcher.isLoading, !batch.isBehind {
      let (boot, wall) = dispatcher.engine.nextDeadline
      if let wall { alarms.armWall(at: wall) }
      if let boot { alarms.arm(noLaterThan: boot) }
      if let fleet = dispatcher.fleet?.nextWake {
        alarms.arm(noLaterThan: Instant(microseconds: fleet))
      }
    }
    if let writer = state.writer, !isReadOnly, virtualClock == nil {
      alarms.arm(noLaterThan: Instant(microseconds: writer.clocksDue))
    }
  }

  /// Continues with snapshots for half a millisecond, one connection after the other.
  ///
  /// - Returns: whether any are left.
  private func continueSnapshots() -> Bool {
    guard dispatcher.engine.isAnySnapshotAwaited else { return false }
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    // Begins with the connection after the last one served.
    var waiting = dispatcher.engine.connectionsAwaitingSnapshots.sorted()
    let next = waiting.firstIndex { $0 > batch.lastSnapshot } ?? 0
    waiting = Array(waiting[next...] + waiting[..<next])
    var goesOn = false
    repeat {
      goesOn = false
      for id in waiting {
        guard let session = dispatcher.sessions[id], !session.isBackedUp, !session.isClosing,
          dispatcher.continueSnapshots(for: session, budget: Self.snapshotsPerLook, at: now)
        else { continue }
        batch.lastSnapshot = id
        goesOn = true
        guard Int64(BootClock.now) < end else { break }
      }
    } while goesOn && Int64(BootClock.now) < end
    return goesOn
  }

  // MARK: Memory

  /// Gives the process small pages of memory only. The kernel clears a huge page in one piece,
  /// which blocks the loop for milliseconds, and for tens of them in a virtual machine.
  package static func avoidHugePages() { _ = countdownd_avoid_huge_pages() }

  /// Returns memory to the system once clients have read most of a peak of output, or have
  /// disconnected. Takes about 0.1 ms for each MiB.
  private func returnMemory() {
    if dispatcher.takePeak() { malloc_trim(0) }
    guard isMemoryLimited, Int64(BootClock.now) - batch.memoryRead >= Self.memoryMicroseconds
    else { return }
    readMemory()
  }

  private var isMemoryLimited: Bool {
    settings.engine.limits.memory > 0 || dispatcher.engine.isMemoryFull
  }

  /// Looks at the memory within a batch as well, so that much input at once does not exceed the
  /// limit by much.
  func noteInput(bytes: Int) {
    batch.inputSinceMemoryRead += bytes
    guard batch.inputSinceMemoryRead >= Self.inputPerReading else { return }
    batch.inputSinceMemoryRead = 0
    if isMemoryLimited { readMemory() }
  }

  /// Refuses new entities while more memory is in use than the limit says.
  private func readMemory() {
    let maximum = settings.engine.limits.memory
    let now = Int64(BootClock.now)
    batch.memoryRead = now
    var isFull = maximum > 0 && ProcessMemory.residentBytes > maximum
    // Entities that have ended may have left memory that is free.
    if isFull, now - batch.memoryTrimmed >= Self.trimmedMicroseconds {
      batch.memoryTrimmed = now
      malloc_trim(0)
      isFull = ProcessMemory.residentBytes > maximum
    }
    if isFull != dispatcher.engine.isMemoryFull { dispatcher.engine.isMemoryFull = isFull }
  }

  /// For how long, and how much input, a reading of the memory in use is good.
  private static let memoryMicroseconds: Int64 = 20_000
  private static let inputPerReading = 1 << 20
  /// It walks through all free memory, so it waits for so long after the last time.
  private static let trimmedMicroseconds: Int64 = 1_000_000

  // MARK: Storing

  /// Stores the changes of the batch, then writes its output, in the order of the batches.
  func commitBatch() {
    dispatcher.exchangeTouched(&batch.touched)
    guard let writer = state.writer, !isReadOnly || writer.isBusy else { return writeTouched() }
    if !isReadOnly { dispatcher.engine.takeChanges(into: writer.batch) }
    switch writer.commitAtOnce(at: reading) {
    case .stored:
      writeTouched()
      resumeHeldBack()
      state.goOn()
    case .failed:
      batch.touched.removeAll()
    case .waits:
      let output = holdTouched()
      writer.commitLater { [self] in
        write(output)
        resumeHeldBack()
        state.goOn()
      }
    }
  }

  /// Writes the output of the batch to its connections.
  private func writeTouched() {
    for session in batch.touched {
      if let connection = connections.connection(of: session) {
        connection.writeOutput()
      } else {
        dispatcher.account(session)
      }
    }
    let many = 4_096
    batch.touched.removeAll(keepingCapacity: batch.touched.count < many)
  }

  /// The replies and events of one session in a batch.
  private typealias Output = (session: Session, bytes: [UInt8])

  /// Takes the output of the batch from its sessions, to be written later.
  private func holdTouched() -> [Output] {
    defer { batch.touched.removeAll() }
    return batch.touched.map { session in
      let bytes = session.takeOutput()
      session.heldBatches += 1
      session.heldBytes += bytes.count
      return (session, bytes)
    }
  }

  /// Resumes connections whose user has room for output again.
  private func resumeHeldBack() {
    for id in dispatcher.takeRoomFreed() { connection(id)?.goOn() }
  }

  private func write(_ outputs: [Output]) {
    for (session, bytes) in outputs {
      session.heldBatches -= 1
      session.heldBytes -= bytes.count
      if let connection = connections.connection(of: session) {
        connection.write(bytes)
      } else {
        dispatcher.account(session)
      }
    }
  }
}
