/// Rate limits that many clients use at once, such as one for all. Each change is made on the
/// newest record, so hosts that change it at the same moment would have to decide again:
///
/// - A host makes the changes that wait for each other in one change.
/// - Hosts take turns, in the order of their numbers. Once one has changed the limit, the next one
///   may do so at once, and each later one a slot later, as those before it may have nothing to do.
///
/// Turns only avoid work that is done twice: the servers compare versions anyway. A host that has
/// not changed the limit for a while has no turn, so one that is alone waits for nobody.
extension Fleet {
  /// How many changes are made at once.
  private static let maximumAtOnce = 64
  /// After how many turns that it lets pass a host has none.
  private static let maximumSkipped = 2
  /// Of how many limits it is known who has changed them lately.
  private static let maximumWritten = 1_024

  // MARK: Turns

  /// Notes that a daemon has changed a limit.
  func noteWriter(of key: FleetKey, _ daemon: UInt64) {
    if writers.count >= Self.maximumWritten, writers[key] == nil {
      writers = writers.filter { isRecent($0.value.last!) }
      if writers.count >= Self.maximumWritten { writers = [:] }
    }
    var known = writers[key] ?? []
    if let last = known.firstIndex(where: { $0.daemon == daemon }) {
      // Those before it have let a turn pass.
      for place in 0..<last { known[place].skipped += 1 }
      known.remove(at: last)
    }
    known.removeAll { !isRecent($0) || $0.skipped > Self.maximumSkipped }
    known.append(FleetWriter(daemon: daemon, boot: boot))
    writers[key] = known
  }

  private func isRecent(_ writer: FleetWriter) -> Bool {
    writer.boot > boot - 2 * settings.timeout.microseconds
  }

  /// Returns how long this host has to wait until it is its turn to change a limit.
  private func wait(for key: FleetKey) -> Int64 {
    guard let writers = writers[key], let last = writers.last else { return 0 }
    let others = writers.filter { isRecent($0) && $0.daemon != daemon }
    guard !others.isEmpty else { return 0 }
    let count = others.count + 1
    func place(_ number: UInt64) -> Int {
      others.count { $0.daemon < number } + (daemon < number ? 1 : 0)
    }
    let before = (place(daemon) - place(last.daemon) + count - 1) % count
    let slot = min(turnLength, settings.timeout.microseconds / Int64(2 * count))
    return last.boot + Int64(before) * slot - boot
  }

  /// Holds an operation until it is its turn. Returns false if it is.
  func mustWait(_ operation: FleetOperation) -> Bool {
    guard operation.takes else { return false }
    let due = boot + wait(for: operation.key)
    guard due > boot, due < operation.deadline else { return false }
    operation.state = .awaitsTurn
    held.append((due, operation))
    return true
  }

  /// Continues with the operations whose turn it is, after other hosts have changed their limits.
  func passTurns() {
    let next = held.compactMap { _, operation in
      operation.state == .awaitsTurn && wait(for: operation.key) <= 0
        ? operation : nil
    }
    for operation in next {
      held.removeAll { $0.operation === operation }
      decide(operation)
    }
  }

  // MARK: At once

  /// Adds the changes of a named limit that wait for an operation, to be made with it. Returns what
  /// is under way then.
  func combined(_ operation: FleetOperation) -> FleetOperation {
    let key = operation.key
    guard operation.takes, operation.seen == nil || operation.attempts > 0,
      dispatcher.engine.rules(of: key.key.span) != nil
    else { return operation }
    var parts = operation.parts.filter { !$0.isOver }
    let count = parts.count
    while parts.count < Self.maximumAtOnce, let next = lanes[key]!.next.first,
      next.isOver || next.takes
    {
      lanes[key]!.next.removeFirst()
      if !next.isOver { parts.append(next) }
    }
    guard parts.count > count || !operation.several.isEmpty else { return operation }
    var whole = operation
    if operation.several.isEmpty {
      whole = FleetOperation(
        key, partition: operation.partition, .several, deadline: operation.deadline)
      whole.attempts = operation.attempts
      lanes[key]!.current = whole
    }
    whole.several = parts
    whole.deadline = parts[0].deadline
    for part in parts { part.whole = whole }
    // What a server has reported before a part began says nothing about it.
    if parts.count > count { whole.seen = nil }
    return whole
  }
}

/// A daemon that has changed a rate limit, and when this host learned of it.
struct FleetWriter {
  let daemon: UInt64
  let boot: Int64
  /// How many turns it has let pass since then.
  var skipped = 0
}
