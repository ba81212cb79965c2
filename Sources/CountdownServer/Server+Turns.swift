import CMalloc
import CountdownStore
import Countdowns
import DispatchTimers

/// The turn: time passes, what has changed is stored, what was said is written.
extension Server {
  /// Has the turn ended once all that has come with it is done: everything is written at once.
  func endTurn() {
    guard !isTurnEnding else { return }
    isTurnEnding = true
    loop.execute { [self] in
      isTurnEnding = false
      dispatcher.beginRound()
      passTime()
      continueSnapshots()
      storeTurn()
      resumeHeldBack()
      armAlarms()
      returnMemory()
    }
  }

  /// Goes on after sockets have been looked at.
  ///
  /// - Parameter first: before those that are not.
  func yieldToSockets(first: Bool = false, _ body: @escaping (Server) -> Void) {
    if first { putOffFirst.append(body) } else { putOff.append(body) }
    afterSockets.comeBack()
  }

  func goOn() {
    let bodies = putOffFirst + putOff
    putOffFirst = []
    putOff = []
    for body in bodies { body(self) }
  }

  // MARK: Time

  private func passTime() {
    // What fell due while nobody was there happens once everything is.
    if !dispatcher.isLoading, !isBehind { passSlice() }
    if let due = watchdogDue, let interval = settings.watchdogInterval,
      Moment.present.boot >= due
    {
      watchdogDue = Moment.present.boot + Interval(microseconds: interval / 2)
      hooks.isAlive(status)
    }
  }

  /// Does what is due, for half a millisecond; then sockets come first. The clock is looked at after
  /// one step, after two more, after four more: a step takes long where many listen.
  private func passSlice() {
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    var steps = 1
    repeat {
      if dispatcher.advance(to: now, budget: steps) { return }
      steps = min(steps * 2, Self.stepsPerLook)
    } while Int64(BootClock.now) < end
    isBehind = true
    yieldToSockets { $0.catchUp() }
  }

  /// Goes on with what is due.
  func catchUp() {
    isBehind = false
    endTurn()
  }

  func armAlarms() {
    // What is due while it loads happens after that; and while more is due than is done in a slice
    // its alarm would only bring turns between which nobody looks at sockets.
    if virtualClock == nil, !dispatcher.isLoading, !isBehind {
      let (boot, wall) = dispatcher.engine.nextDeadline
      if let wall { wallAlarm.arm(at: wall.tick) }
      // Rather once too often than set anew each time the first of all is cancelled.
      if let boot { bootAlarm.arm(noLaterThan: boot.tick) }
    }
    if let watchdogDue { bootAlarm.arm(noLaterThan: watchdogDue.tick) }
    // While nothing can be stored it is tried each second anyway.
    if let keeper, !dispatcher.engine.isReadOnly {
      bootAlarm.arm(noLaterThan: keeper.clockDue.tick)
    }
  }

  /// Goes on with snapshots for half a millisecond, one connection after the other.
  private func continueSnapshots() {
    guard dispatcher.engine.isAnySnapshotAwaited else { return }
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    // From the one on that comes after the last.
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
    if goesOn { yieldToSockets { $0.endTurn() } }
  }

  // MARK: Memory

  /// Returns memory to the system once clients have read most of a peak of output, or are gone. Takes
  /// about 0.1 ms for each MiB.
  private func returnMemory() {
    if dispatcher.takePeak() { malloc_trim(0) }
  }

  // MARK: Storing

  /// What was told to a connection in a turn.
  typealias Told = (session: Session, said: Said)

  /// Stores what the turn has changed. What was said in it is written once that is done, after what
  /// was said in the turns before.
  func storeTurn() {
    // While it is tried whether anything can be stored again, what time changes waits for the answer: told
    // before, and taken back with the first commands after, it would be told twice.
    if let keeper, dispatcher.engine.isReadOnly, keeper.isBusy, !mustTakeBack,
      dispatcher.engine.hasChanges, !isStopping
    {
      return
    }
    let turn = dispatcher.takeTouched().map { session -> Told in
      let said = session.takeSaid()
      session.heldTurns += 1
      session.heldBytes += said.bytes.count
      return (session, said)
    }
    // It concerns this turn alone, also if there is nothing to be taken back.
    let mustTakeBack = mustTakeBack
    let hasTakenBack = hasTakenBack
    self.mustTakeBack = false
    self.hasTakenBack = false
    guard let keeper, mustTakeBack || !dispatcher.engine.isReadOnly,
      dispatcher.engine.hasChanges || keeper.isBusy || keeper.isClockOutdated(at: now)
    else { return write(turn) }
    let batch = StoreBatch(takenFrom: dispatcher.engine)
    if mustTakeBack {
      let restsOnIt = hasTakenBack && turn.contains { $0.said.tellsOfState }
      takeBack(turn, batch, keeper, isOneOfMany: restsOnIt)
    } else {
      dispatcher.turnsUnderWay += 1
      keeper.store(batch, at: now) { [self] batch, error in
        dispatcher.turnsUnderWay -= 1
        if let error {
          notStored(turn, batch, error, keeper)
        } else {
          keeper.confirm(batch, dispatcher.engine)
          write(turn)
        }
        resumeHeldBack()
        goOnAfterStoring()
      }
    }
  }

  /// Lets connections go on whose user has room for output again.
  private func resumeHeldBack() {
    for connection in dispatcher.takeRoomFreed() { connections[connection]?.takeUp() }
  }

  /// - Parameter refusal: the error that takes the place of what did not come about, and the first
  ///   batch that was not stored.
  func write(_ turn: [Told], withdrawing refusal: (error: String, since: UInt64)? = nil) {
    for (session, said) in turn {
      session.heldTurns -= 1
      session.heldBytes -= said.bytes.count
      let bytes = refusal.map { said.withdrawn($0.error, since: $0.since) } ?? said.bytes
      guard let handler = connections[session.client.connection] else {
        dispatcher.account(session)
        continue
      }
      session.outbound.append(bytes)
      handler.flush()
    }
  }

  func goOnAfterStoring() {
    guard keeper?.isBusy != true, !afterStoring.isEmpty else { return }
    let bodies = afterStoring
    afterStoring = []
    for body in bodies { body() }
  }
}
