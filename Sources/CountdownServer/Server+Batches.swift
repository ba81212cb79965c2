import CMalloc
import CountdownStore
import Countdowns
import DispatchTimers

/// A batch: the commands of one iteration of the loop. At its end due timers run, changes are
/// stored, and replies and events are written.
extension Server {
  /// Begins a batch, unless one is open. The batch ends after this iteration of the loop.
  func openBatch() {
    guard !isBatchOpen else { return }
    isBatchOpen = true
    checkStore()
  }

  func endBatch() {
    isBatchOpen = false
    if loop.isRoundOver { dispatcher.beginRound() }
    passTime()
    let hasSnapshots = continueSnapshots()
    if let fleetServers {
      dispatcher.fleet?.flush()
      fleetServers.flush()
    }
    commitBatch()
    resumeHeldBack()
    armAlarms()
    returnMemory()
    if isBehind || hasSnapshots { openBatch() }
  }

  // MARK: Time

  private func passTime() {
    // Timers that fell due while the daemon was down fire once everything is loaded.
    if !dispatcher.isLoading { passSlice() }
    if let due = watchdogDue, let interval = settings.watchdogInterval,
      Moment.present.boot >= due
    {
      watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
      hooks.isAlive(status)
    }
  }

  /// Does due work for half a millisecond; then sockets come first. Looks at the clock after one
  /// step, two more, four more, and so on: a step takes long if it notifies many subscribers.
  private func passSlice() {
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    var steps = 1
    repeat {
      isBehind = !dispatcher.advance(to: now, budget: steps)
      steps = min(steps * 2, Self.stepsPerLook)
    } while isBehind && Int64(BootClock.now) < end
  }

  func armAlarms() {
    // Due work waits for the end of loading. If a slice leaves due work, the next batch follows at
    // once.
    if virtualClock == nil, !dispatcher.isLoading, !isBehind {
      let (boot, wall) = dispatcher.engine.nextDeadline
      if let wall { wallAlarm.arm(at: wall.tick) }
      // A spurious wake-up is cheaper than re-arming each time the earliest is cancelled.
      if let boot { bootAlarm.arm(noLaterThan: boot.tick) }
      if let fleet = dispatcher.fleet?.nextWake {
        bootAlarm.arm(noLaterThan: UInt64(max(fleet, 0)))
      }
    }
    if let watchdogDue { bootAlarm.arm(noLaterThan: watchdogDue.tick) }
    if let writer, !isReadOnly, virtualClock == nil {
      bootAlarm.arm(noLaterThan: UInt64(max(writer.clocksDue, 0)))
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
    let next = waiting.firstIndex { $0 > lastSnapshot } ?? 0
    waiting = Array(waiting[next...] + waiting[..<next])
    var goesOn = false
    repeat {
      goesOn = false
      for id in waiting {
        guard let session = dispatcher.sessions[id], !session.isBackedUp, !session.isClosing,
          dispatcher.continueSnapshots(for: session, budget: Self.snapshotsPerLook, at: now)
        else { continue }
        lastSnapshot = id
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
  }

  // MARK: Storing

  /// Stores the changes of the batch, then writes its output, in the order of the batches.
  func commitBatch() {
    dispatcher.exchangeTouched(&touched)
    guard let writer, !isReadOnly || writer.isBusy else { return writeTouched() }
    if !isReadOnly { dispatcher.engine.takeChanges(into: writer.batch) }
    switch writer.commitAtOnce(at: reading) {
    case .stored:
      writeTouched()
      resumeHeldBack()
      goOnAfterStoring()
    case .failed:
      touched.removeAll()
    case .waits:
      let output = holdTouched()
      writer.commitLater { [self] in
        write(output)
        resumeHeldBack()
        goOnAfterStoring()
      }
    }
  }

  /// Writes the output of the batch to its connections.
  private func writeTouched() {
    for session in touched {
      if let connection = connection(of: session) {
        connection.writeOutput()
      } else {
        dispatcher.account(session)
      }
    }
    let many = 4_096
    touched.removeAll(keepingCapacity: touched.count < many)
  }

  /// The replies and events of one session in a batch.
  private typealias Output = (session: Session, bytes: [UInt8])

  /// Takes the output of the batch from its sessions, to be written later.
  private func holdTouched() -> [Output] {
    defer { touched.removeAll() }
    return touched.map { session in
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

  private func write(_ batch: [Output]) {
    for (session, bytes) in batch {
      session.heldBatches -= 1
      session.heldBytes -= bytes.count
      if let connection = connection(of: session) {
        connection.write(bytes)
      } else {
        dispatcher.account(session)
      }
    }
  }

  func goOnAfterStoring() {
    guard writer?.isBusy != true, !afterStoring.isEmpty else { return }
    let bodies = afterStoring
    afterStoring = []
    for body in bodies { body() }
  }
}
