import CountdownStore
import Countdowns

/// Brings what the engine keeps to the store, turn by turn, and back from it.
final class StateKeeper {
  /// What one turn has changed, for the store, and where to find it in the engine.
  typealias Batch = StoreBatch

  private let writer: StoreWriter
  private let bootID: String
  /// How the clocks stood when they were last given to the writer, with whatever was to be stored.
  private var clock: StoreClock
  let options: Store.Options

  /// Why nothing can be stored at present.
  private(set) var trouble: StoreError?

  init(
    _ store: sending Store, bootID: String,
    execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(StoreError) {
    clock = store.clock
    options = store.options
    self.bootID = bootID
    writer = try StoreWriter(store, execute: execute)
  }

  var isBusy: Bool { writer.isBusy }

  /// Why checkpoints fail at present.
  var checkpointError: StoreError? { writer.checkpointError }

  /// `body` is called on the loop when they begin to fail, or fail for another reason, and with nil when
  /// they work again.
  func whenCheckpointsChange(_ body: @escaping (StoreError?) -> Void) {
    writer.checkpointsChanged = body
  }

  var facts: [(name: String, value: String)] {
    [
      ("durability", options.durability.rawValue),
      ("state_directory", options.directory),
      ("read_only", trouble == nil ? "0" : "1"),
      ("last_error", trouble?.description ?? ""),
      ("checkpoint_error", writer.checkpointError?.description ?? ""),
      ("log_pages", "\(writer.logPages)"),
      ("checkpoints", "\(writer.checkpoints)"),
    ]
  }

  // MARK: Clocks

  /// Whether the clocks are to be stored though nothing else has changed: somebody has set the wall
  /// clock, or a minute has passed.
  func isClockOutdated(at now: Moment) -> Bool { clock.isOutdated(at: reading(now)) }

  /// When a minute will have passed.
  var clockDue: Instant { Instant(microseconds: clock.outdatedAt) }

  // MARK: Storing

  /// `answer` is called on the loop, before this returns or later, in the order of the batches.
  /// The clocks are stored with it if they are outdated.
  ///
  /// - Parameter isProbe: something is written even if nothing has changed.
  func store(
    _ batch: Batch, at now: Moment, isProbe: Bool = false,
    _ answer: @escaping (Batch, StoreError?) -> Void
  ) {
    let now = reading(now)
    let isProbe = isProbe || clock.isOutdated(at: now)
    if isProbe { clock.note(now) }
    writer.submit(batch, at: now, isProbe: isProbe) { [weak self] batch, error in
      self?.trouble = error
      answer(batch, error)
    }
  }

  /// Changes that time has made, and that could not be stored: they are tried again.
  func keepForLater(_ batch: Batch, _ engine: Engine) {
    Self.keepForLater(batch, engine)
  }

  static func keepForLater(_ batch: Batch, _ engine: Engine) {
    if let events = batch.events { engine.eventTail.keepForLater(events.lastSequence) }
    for (kind, index) in batch.changed { engine.noteAgain(kind, index, wasGone: false) }
    for (kind, index) in batch.ended { engine.noteAgain(kind, index, wasGone: true) }
  }

  /// Changes that commands have made, and that could not be stored: everything is as it is stored.
  /// To be called from within an answer.
  func takeBack(_ batch: Batch, _ engine: Engine, at now: Moment) throws(StoreError) {
    if let events = batch.events { engine.eventTail.takeBack(events.lastSequence) }
    let entities = batch.changed + batch.ended
    // Nothing is thrown away before all that takes its place has been read.
    let stored = try entities.map { (kind, place) throws(StoreError) in
      (place, try writer.record(of: kind, at: place))
    }
    engine.discardWhatRestsOnChanges()
    for (kind, index) in entities { engine.discard(kind, index, at: now) }
    for case (let place, let record?) in stored { record.putBack(in: engine, at: place, now: now) }
  }

  /// A batch was stored.
  func confirm(_ batch: Batch, _ engine: Engine) {
    engine.noteStored(batch.number)
    for (kind, index) in batch.ended { engine.noteGone(kind, index, in: batch.number) }
  }

  /// Copies the state of this moment to a file, beside everything else. `answer` is called on the
  /// loop.
  func backUp(
    to path: String, at now: Moment, _ answer: @escaping @Sendable (StoreError?) -> Void
  ) {
    let notesClocks = trouble == nil && isClockOutdated(at: now)
    writer.backUp(to: path, at: notesClocks ? reading(now) : nil, answer)
  }

  /// Commits what waits, and how the clocks stand, and closes the files.
  func close(at now: Moment) { writer.close(at: reading(now)) }

  /// The store that another is to be made of; nil once it is closed. While it is not busy only.
  var store: Store? { writer.idleStore }

  /// Closes the files as they are: another store takes their place.
  func giveUp() {
    writer.idleStore?.leaveAsItIs()
    writer.close(at: nil)
  }

  private func reading(_ now: Moment) -> StoreClock.Reading {
    StoreClock.Reading(bootID: bootID, now)
  }
}

extension StoreClock.Reading {
  init(bootID: String, _ now: Moment) {
    self.init(
      bootID: bootID, bootMicroseconds: now.boot.microseconds,
      wallMicroseconds: now.wall.microseconds)
  }
}
