import CountdownCore
import CountdownEngine
import CountdownStore
import Glibc

/// Brings what the engine keeps to the store, turn by turn, and back from it.
final class StateKeeper {
  /// What one turn has changed, for the store, and where to find it in the engine.
  typealias Batch = StoreBatch

  private let writer: StoreWriter
  /// The store's clock is this much ahead of the boot clock.
  private let offset: Int64
  private let bootID: String
  let options: Store.Options

  /// Why nothing can be stored at present.
  private(set) var trouble: StoreError?

  init(
    _ store: sending Store, bootID: String,
    execute: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(StoreError) {
    offset = store.clock.offset
    options = store.options
    self.bootID = bootID
    writer = try StoreWriter(store, execute: execute)
  }

  var isBusy: Bool { writer.isBusy }

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

  // MARK: Storing

  /// What has changed since the last call.
  func takeBatch(from engine: inout Engine) -> Batch {
    var batch = Batch()
    batch.number = engine.beginBatch()
    let offset = offset
    engine.takeCountdownChanges { change in
      switch change {
      case .current(let index, let countdown):
        batch.countdowns.current.append(
          CountdownRecord(countdown, at: index, offset: offset))
      case .gone(let index):
        batch.countdowns.gone.append(index)
      }
    }
    engine.takeTimerChanges { change in
      switch change {
      case .current(let index, let timer):
        batch.timers.current.append(TimerRecord(timer, at: index, offset: offset))
      case .gone(let index):
        batch.timers.gone.append(index)
      }
    }
    engine.takeHUDChanges { change in
      switch change {
      case .current(let index, let hud):
        batch.huds.current.append(HUDRecord(hud, at: index, offset: offset))
      case .gone(let index):
        batch.huds.gone.append(index)
      }
    }
    engine.takeGuardChanges { kind, change in
      switch change {
      case .current(let index, let kept):
        batch.guards.current.append(GuardRecord(kept, at: index, offset: offset))
      case .gone(let index):
        batch.guards.gone.append(GuardRecord.index(GuardRecord.Kind(kind), index))
      }
    }
    if let events = engine.eventTail.takeUnstored() {
      batch.events = StoreBatch.Events(
        lastSequence: events.lastSequence, count: events.count, payload: events.bytes)
    }
    return batch
  }

  /// `answer` is called on the loop, before this returns or later, in the order of the batches.
  ///
  /// - Parameter isProbe: something is written even if nothing has changed.
  func store(
    _ batch: Batch, at now: Moment, isProbe: Bool = false,
    _ answer: @escaping (Batch, StoreError?) -> Void
  ) {
    writer.submit(batch, at: reading(now), isProbe: isProbe) { [weak self] batch, error in
      self?.trouble = error
      answer(batch, error)
    }
  }

  /// Changes that time has made, and that could not be stored: they are tried again.
  func keepForLater(_ batch: Batch, _ engine: inout Engine) {
    if let events = batch.events { engine.eventTail.keepForLater(events.lastSequence) }
    for record in batch.countdowns.current {
      engine.noteAgain(.countdown, record.index, wasGone: false)
    }
    for index in batch.countdowns.gone { engine.noteAgain(.countdown, index, wasGone: true) }
    for record in batch.timers.current { engine.noteAgain(.timer, record.index, wasGone: false) }
    for index in batch.timers.gone { engine.noteAgain(.timer, index, wasGone: true) }
    for record in batch.huds.current { engine.noteAgain(.hud, record.index, wasGone: false) }
    for index in batch.huds.gone { engine.noteAgain(.hud, index, wasGone: true) }
    let guards = batch.guards()
    for (kind, index) in guards.current { engine.noteAgain(kind, index, wasGone: false) }
    for (kind, index) in guards.gone { engine.noteAgain(kind, index, wasGone: true) }
  }

  /// Changes that commands have made, and that could not be stored: everything is as it is stored.
  /// To be called from within an answer.
  func takeBack(_ batch: Batch, _ engine: inout Engine, at now: Moment) throws(StoreError) {
    if let events = batch.events { engine.eventTail.takeBack(events.lastSequence) }
    // Nothing is thrown away before all that takes its place has been read.
    var countdowns: [(UInt32, DurableCountdown?)] = []
    for index in batch.countdowns.current.map(\.index) + batch.countdowns.gone {
      countdowns.append((index, try writer.countdown(at: index)?.durable(offset: offset)))
    }
    var timers: [(UInt32, DurableTimer?)] = []
    for index in batch.timers.current.map(\.index) + batch.timers.gone {
      timers.append((index, try writer.timer(at: index)?.durable(offset: offset)))
    }
    var huds: [(UInt32, DurableHUD?)] = []
    for index in batch.huds.current.map(\.index) + batch.huds.gone {
      huds.append((index, try writer.hud(at: index)?.durable(offset: offset)))
    }
    let changed = batch.guards.current.map(\.index) + batch.guards.gone
    let guards = try changed.map { index throws(StoreError) in
      try writer.guardRecord(at: index)
    }
    for (index, _) in countdowns { engine.discard(.countdown, index) }
    for (index, _) in timers { engine.discard(.timer, index) }
    for (index, _) in huds { engine.discard(.hud, index) }
    for case (let index, let stored?) in countdowns { engine.putBack(stored, at: index, now: now) }
    for case (let index, let stored?) in timers { engine.putBack(stored, at: index, now: now) }
    for case (let index, let stored?) in huds { engine.putBack(stored, at: index, now: now) }
    let (current, gone) = batch.guards()
    for (kind, index) in current + gone { engine.discard(kind, index) }
    for case let record? in guards {
      if let stored = record.durable(offset: offset) {
        engine.putBack(stored, at: record.place, now: now)
      }
    }
  }

  /// A batch was stored.
  func confirm(_ batch: Batch, _ engine: inout Engine) {
    for index in batch.countdowns.gone { engine.noteGone(.countdown, index, in: batch.number) }
    for index in batch.timers.gone { engine.noteGone(.timer, index, in: batch.number) }
    for index in batch.huds.gone { engine.noteGone(.hud, index, in: batch.number) }
    for (kind, index) in batch.guards().gone {
      engine.noteGone(kind, index, in: batch.number)
    }
  }

  /// Copies the state of this moment to a file, beside everything else. `answer` is called on the
  /// loop.
  func backUp(to path: String, _ answer: @escaping @Sendable (StoreError?) -> Void) {
    writer.backUp(to: path, answer)
  }

  /// Commits what waits, and closes the files.
  func close() { writer.close() }

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

/// Names this boot of the machine.
///
/// Source: random(4), /proc/sys/kernel/random/boot_id.
package enum BootID {
  /// Without it each start counts as one after a reboot, by the wall clock.
  package static var current: String {
    guard let file = fopen("/proc/sys/kernel/random/boot_id", "r") else { return "unknown" }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard fgets(&line, CInt(line.count), file) != nil else { return "unknown" }
    let bytes = line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:))
    return String(decoding: bytes, as: UTF8.self)
  }
}
