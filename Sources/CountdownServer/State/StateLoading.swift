import CountdownStore
import Countdowns
import Dispatch
import Runtime
import Synchronization

/// Reads a store on a separate thread, and hands its contents to the loop in portions, so that
/// clients receive LOADING meanwhile.
final class StateLoading: EntityReader, @unchecked Sendable {
  /// The most rows in a portion: a few milliseconds of the loop's time.
  let portion = 4_096
  /// The most portions that wait for the loop.
  private static let ahead = 4

  enum Portion: Sendable {
    case entities(StoredEntities)
    case events([StoredEvents])
  }

  /// The store, used on the loading thread until loading is done.
  private var store: Store?
  private let check: StructureCheck
  /// The problem that the structure check has found.
  private let structure = Mutex<StoreError?>(nil)
  private let isStopped = Atomic(false)
  /// Free places for portions. Starts at 0: libdispatch traps if it is released below its start.
  private let room = DispatchSemaphore(value: 0)
  private let deliver: @Sendable (Portion) -> Void
  /// The problem to report, used on the loading thread only; see `note`.
  private var failure: StoreError?

  /// - Parameter deliver: receives each portion, in order, on the loading thread; call `taken` once
  ///   the portion has been handled.
  init(_ store: sending Store, deliver: @escaping @Sendable (Portion) -> Void) {
    check = StructureCheck(of: store)
    loadedFrom = (store.path, store.savedAt)
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
      // A temporary error takes precedence: it is no reason to set the state aside.
      if let found = structure.withLock(\.self), problem == nil || found.kind != .corrupt {
        problem = found
      }
      done(problem)
    }
  }

  /// Makes loading end soon, with or without an error. Call it on the loop.
  func stop() {
    isStopped.store(true, ordering: .relaxed)
    store?.interrupt()
    check.interrupt()
  }

  /// The number of `StoredEvents` that cannot be read; counted on the loop.
  var unreadableEvents = 0

  /// When the progress was last reported, on the boot clock; used on the loop.
  var reportedAt: Instant?

  /// The records that are intact in the file but make no sense; noted on the loop.
  var refused = DamagedRecords("record")

  /// The damage found in the state; nil if there is none.
  var problem: StoreError? {
    guard let store else { return nil }
    if let damage = store.damage { return damage }
    return refused.description.map { StoreError(.corrupt, store.path, $0) }
  }

  /// The store to continue with once loading is done.
  var loaded: Store { store! }

  /// The path of the state, and when its clocks were stored.
  let loadedFrom: (path: String, savedAt: Int64?)

  /// Releases the store, and with it the file and its directory, unless others use the store.
  func close() { store = nil }

  /// Reads as much as possible, then throws the problem, if there is one.
  private func load() throws(StoreError) {
    let store = store!
    do throws(StoreError) {
      try store.loadEntities(self)
    } catch {
      note(error)
    }
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

  private var wantsMore: Bool { !isStopped.load(ordering: .relaxed) }

  func take(_ entities: StoredEntities) { hand(.entities(entities)) }

  private func note(_ error: StoreError) {
    // A temporary error takes precedence: it is no reason to set the state aside.
    if failure == nil || error.kind != .corrupt { failure = error }
  }

  private func hand(_ portion: Portion) {
    guard wantsMore else { return }
    room.wait()
    deliver(portion)
  }
}
