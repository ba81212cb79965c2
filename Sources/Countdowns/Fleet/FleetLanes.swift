import DequeModule

/// What is under way about one entity: one operation, while the others wait, and requests, also of
/// operations that have timed out.
struct FleetLane {
  fileprivate(set) var current: FleetOperation?
  fileprivate var next: Deque<FleetOperation> = []
  fileprivate var requests = 0
  /// The newest entry that the stream has brought about the entity meanwhile, and the partition's
  /// loading then.
  fileprivate(set) var newest: (number: Int64, loading: Int)?
}

/// What is under way about all entities, and operations to be decided.
struct FleetLanes {
  private var all: [FleetKey: FleetLane] = [:]
  /// Operations to decide, one after the other.
  fileprivate var ready: Deque<FleetOperation> = []
  fileprivate var isDeciding = false
  /// Operations to continue, as their partition is open again.
  fileprivate var resuming: Deque<FleetOperation> = []

  var isResuming: Bool { !resuming.isEmpty }
  var count: Int { all.count }
  var keys: some Sequence<FleetKey> { all.keys }
  subscript(key: FleetKey) -> FleetLane? { all[key] }

  /// Returns whether no other operation about the same entity is before this one.
  func isCurrent(_ operation: FleetOperation) -> Bool { all[operation.key]?.current === operation }

  /// Adds an operation. Returns false if it has to wait for others.
  fileprivate mutating func add(_ operation: FleetOperation) -> Bool {
    guard all[operation.key]?.current == nil else {
      all[operation.key]!.next.append(operation)
      return false
    }
    all[operation.key, default: FleetLane()].current = operation
    return true
  }

  /// Removes an operation. Returns the one that comes next about the entity.
  fileprivate mutating func remove(_ operation: FleetOperation) -> FleetOperation? {
    guard isCurrent(operation) else { return nil }
    let next = removeNext(operation.key) { _ in true }
    all[operation.key]!.current = next
    forget(operation.key)
    return next
  }

  /// Removes the next operation about an entity that has not ended, if it is as wanted.
  mutating func removeNext(
    _ key: FleetKey, if isWanted: (FleetOperation) -> Bool
  ) -> FleetOperation? {
    while let next = all[key]!.next.first, next.isOver || isWanted(next) {
      all[key]!.next.removeFirst()
      if !next.isOver { return next }
    }
    return nil
  }

  mutating func replaceCurrent(with whole: FleetOperation) { all[whole.key]!.current = whole }

  mutating func note(_ entry: FleetEntry, of loading: Int) {
    all[entry.key]?.newest = (entry.number, loading)
  }

  mutating func noteRequest(about key: FleetKey) { all[key]!.requests += 1 }

  mutating func noteAnswer(about key: FleetKey) {
    all[key]!.requests -= 1
    forget(key)
  }

  /// Forgets the lane of a key that nothing is under way about.
  private mutating func forget(_ key: FleetKey) {
    if let lane = all[key], lane.current == nil, lane.requests == 0 { all[key] = nil }
  }
}

extension Fleet {
  /// Begins an operation that ends within the timeout.
  func begin(_ purpose: FleetOperation.Purpose, about key: FleetKey) {
    let operation = FleetOperation(
      key, partition: partition(of: key), purpose, deadline: boot + settings.timeout.microseconds)
    times.arm(&operation.timer, .operation(operation), at: operation.deadline)
    if !operation.isDue { use(key, in: operation.partition) }
    if lanes.add(operation) { decide(operation) }
  }

  /// Continues with the next operation about the same entity.
  func leave(_ operation: FleetOperation) {
    if let next = lanes.remove(operation) { decide(next) }
  }

  /// Decides one operation after the other: deciding one may free others that wait for it.
  func decide(_ operation: FleetOperation) {
    lanes.ready.append(operation)
    guard !lanes.isDeciding else { return }
    lanes.isDeciding = true
    while let next = lanes.ready.popFirst() { decideNow(next) }
    lanes.isDeciding = false
  }

  // MARK: Waiting

  /// Lets an operation wait until a time before its deadline.
  func hold(_ operation: FleetOperation, _ state: FleetOperation.State, until due: Int64) {
    operation.state = state
    times.arm(&operation.timer, .operation(operation), at: due)
  }

  /// Continues with an operation that was held, or ends it at its deadline.
  func isTime(for operation: FleetOperation) {
    operation.timer = nil
    if operation.several.isEmpty {
      guard boot < operation.deadline else { return timeOut(operation) }
      times.arm(&operation.timer, .operation(operation), at: operation.deadline)
    }
    if operation.isHeld { decide(operation) }
  }

  /// Continues with what waits for a partition: it is open, or cannot be opened.
  func resume(_ partition: FleetPartition) {
    lanes.resuming.append(contentsOf: partition.parked)
    partition.parked = []
    resume(Self.stepsAtOnce)
  }

  func resume(_ budget: Int) {
    for _ in 0..<budget {
      guard let next = lanes.resuming.popFirst() else { return }
      decide(next)
    }
  }
}
