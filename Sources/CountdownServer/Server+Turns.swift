import CountdownCommands
import CountdownCore
import CountdownEngine
import CountdownStore
import DispatchTimers

/// The turn: time passes, what has changed is stored, what was said is written.
extension Server {
  /// Has the turn ended once all that has come with it is done: everything is written at once.
  func endTurn() {
    guard !isTurnEnding else { return }
    isTurnEnding = true
    loop.execute { [self] in
      isTurnEnding = false
      passTime()
      continueSnapshots()
      storeTurn()
      armAlarms()
    }
  }

  /// Goes on after sockets have been looked at.
  func yieldToSockets(_ body: @escaping (Server) -> Void) {
    putOff.append(body)
    afterSockets.comeBack()
  }

  func goOn() {
    let bodies = putOff
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

  /// Does what is due, for half a millisecond; then sockets come first.
  private func passSlice() {
    let now = now
    let end = Int64(BootClock.now) + Self.sliceMicroseconds
    repeat {
      if dispatcher.advance(to: now, budget: Self.stepsPerLook) { return }
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
  }

  private func continueSnapshots() {
    let waiting = dispatcher.engine.connectionsAwaitingSnapshots
    guard !waiting.isEmpty else { return }
    var goesOn = false
    for id in Set(waiting) {
      guard let session = dispatcher.sessions[id], !session.isBackedUp, !session.isClosing
      else { continue }
      dispatcher.continueSnapshots(for: session, budget: Self.snapshotsPerTurn, at: now)
      goesOn = true
    }
    if goesOn, !dispatcher.engine.connectionsAwaitingSnapshots.isEmpty {
      yieldToSockets { $0.endTurn() }
    }
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
      dispatcher.engine.hasChanges || keeper.isBusy
    else { return write(turn) }
    let batch = keeper.takeBatch(from: &dispatcher.engine)
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
          keeper.confirm(batch, &dispatcher.engine)
          write(turn)
        }
        goOnAfterStoring()
      }
    }
  }

  /// - Parameter refusal: the error that takes the place of what did not come about, and the first
  ///   batch that was not stored.
  func write(_ turn: [Told], withdrawing refusal: (error: String, since: UInt64)? = nil) {
    for (session, said) in turn {
      session.heldTurns -= 1
      session.heldBytes -= said.bytes.count
      let bytes = refusal.map { said.withdrawn($0.error, since: $0.since) } ?? said.bytes
      session.outbound.append(bytes)
      connections[session.client.connection]?.flush()
    }
  }

  func goOnAfterStoring() {
    guard keeper?.isBusy != true, !afterStoring.isEmpty else { return }
    let bodies = afterStoring
    afterStoring = []
    for body in bodies { body() }
  }
}
