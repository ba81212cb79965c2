import CountdownStore
import Countdowns
import Dispatch
import Synchronization

/// Reads what a store keeps on a thread of its own, and hands it to the loop in portions, so that
/// clients receive LOADING meanwhile.
final class StateLoading: RecordReader, @unchecked Sendable {
  /// A few milliseconds of the loop's time.
  let portion = 4_096
  /// Portions that wait for the loop, at most.
  private static let ahead = 4

  enum Portion: Sendable {
    /// Puts entities where they were, on the loop; returns how many cannot be there.
    case records(@Sendable (Engine, Moment) -> Int)
    case events([StoredEvents])
  }

  /// Used on the thread, then handed back.
  private var store: Store?
  private let check: StructureCheck
  /// What the check has found.
  private let structure = Mutex<StoreError?>(nil)
  private let isStopped = Atomic(false)
  /// Made empty: one that has less than it was made with may not end.
  private let room = DispatchSemaphore(value: 0)
  private let deliver: @Sendable (Portion) -> Void
  /// What was wrong first; on the thread.
  private var failure: StoreError?

  /// - Parameter deliver: gets each portion, in order, on the thread; `taken` is to be called when
  ///   it has been dealt with.
  init(_ store: sending Store, deliver: @escaping @Sendable (Portion) -> Void) {
    check = StructureCheck(of: store)
    self.store = store
    self.deliver = deliver
    for _ in 0..<Self.ahead { room.signal() }
  }

  func taken() { room.signal() }

  func run(_ done: @escaping @Sendable (StoreError?) -> Void) {
    let checked = DispatchGroup()
    DispatchQueue(label: "countdownd.check").async(group: checked) { [self] in
      do throws(StoreError) {
        try check.run()
      } catch {
        structure.withLock { $0 = error }
      }
    }
    DispatchQueue(label: "countdownd.load").async { [self] in
      var problem: StoreError?
      do throws(StoreError) {
        try load()
      } catch {
        problem = error
      }
      checked.wait()
      // What may pass is no reason to set anything aside.
      if let found = structure.withLock(\.self), problem == nil || found.kind != .corrupt {
        problem = found
      }
      done(problem)
    }
  }

  /// Has it end soon, with or without an error: nobody wants it any more. On the loop.
  func stop() {
    isStopped.store(true, ordering: .relaxed)
    store?.interrupt()
    check.interrupt()
  }

  /// Turns of events that cannot be read; counted on the loop.
  var unreadableEvents = 0

  /// Records that the file is right about, and that make no sense; counted on the loop.
  var unreadable = 0

  /// What is wrong with what was read.
  var problem: StoreError? {
    guard let store else { return nil }
    if let damage = store.damage { return damage }
    guard unreadable > 0 else { return nil }
    return StoreError(.corrupt, store.path, "\(unreadable) records in it make no sense")
  }

  /// The store to continue with, once it is done.
  var loaded: Store { store! }

  /// Lets go of the file and its directory, if nobody else has the store.
  func close() { store = nil }

  /// Reads all that can be read of each table, then throws what was wrong.
  private func load() throws(StoreError) {
    let store = store!
    store.loadRecords(self)
    var events: [StoredEvents] = []
    if wantsMore {
      do throws(StoreError) {
        try store.loadEvents { row in
          events.append(row)
          if events.count == portion {
            hand(.events(events))
            events = []
          }
        }
      } catch {
        note(error)
      }
      hand(.events(events))
    }
    if let failure { throw failure }
  }

  var wantsMore: Bool { !isStopped.load(ordering: .relaxed) }

  func take<Record: StoredRecord>(_ rows: [StoredRow<Record>]) {
    hand(.records { engine, now in Record.restore(rows, in: engine, now: now) })
  }

  func fail<Record: StoredRecord>(_ error: StoreError, in table: Record.Type) { note(error) }

  private func note(_ error: StoreError) {
    // What may pass is no reason to set anything aside.
    if failure == nil || error.kind != .corrupt { failure = error }
  }

  private func hand(_ portion: Portion) {
    if isStopped.load(ordering: .relaxed) { return }
    room.wait()
    deliver(portion)
  }
}
