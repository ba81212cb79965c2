/// Rate limits that many clients use at once, such as one for all. Each change is made on the
/// newest record, so hosts that change it at the same moment would have to decide again:
///
/// - A host makes the changes that wait for each other in one change.
/// - Hosts take turns, in the order of their numbers. Once one has changed the limit, the next one
///   may do so at once, and each later one a slot later, as those before it may have nothing to do.
///
/// Turns only avoid work that is done twice: the servers compare versions anyway. A host that has
/// not changed the limit for a while has no turn, so one that is alone waits for nobody.
package struct FleetTurns {
  /// After how many turns that it lets pass a host has none.
  private static let maximumSkipped = 2
  /// Of how many limits it is known who has changed them lately, and which room was promised last.
  private static let maximumWritten = 1_024
  private static let maximumPromises = 10_000

  /// For how long hosts wait for one whose turn it is, in microseconds.
  package var length: Int64
  private let timeout: Int64
  /// The daemons that have changed a limit lately, the last one at the end.
  private var writers: [FleetKey: [FleetWriter]] = [:]
  /// The limits that this host waits for its turn to change.
  fileprivate var awaited: [FleetKey] = []
  /// The latest room of each limit that this host has let a countdown wait for.
  private(set) var promises: [[UInt8]: Instant] = [:]

  init(_ timeout: Interval) {
    (length, self.timeout) = (timeout.microseconds / 10, timeout.microseconds)
  }

  /// Notes that a daemon has changed a limit.
  mutating func note(_ key: FleetKey, _ daemon: UInt64, at boot: Int64) {
    let oldest = oldest(at: boot)
    if writers.count >= Self.maximumWritten, writers[key] == nil {
      writers = writers.filter { $0.value.last!.boot > oldest }
      if writers.count >= Self.maximumWritten { writers = [:] }
    }
    var known = writers[key] ?? []
    if let last = known.firstIndex(where: { $0.daemon == daemon }) {
      // Those before it have let a turn pass.
      for place in 0..<last { known[place].skipped += 1 }
      known.remove(at: last)
    }
    known.removeAll { $0.boot <= oldest || $0.skipped > Self.maximumSkipped }
    known.append(FleetWriter(daemon: daemon, boot: boot))
    writers[key] = known
  }

  /// Returns when it is a daemon's turn to change a limit.
  fileprivate func turn(_ key: FleetKey, of daemon: UInt64, at boot: Int64) -> Int64 {
    guard let writers = writers[key], let last = writers.last else { return boot }
    let others = writers.filter { $0.boot > oldest(at: boot) && $0.daemon != daemon }
    guard !others.isEmpty else { return boot }
    let count = others.count + 1
    func place(_ number: UInt64) -> Int {
      others.count { $0.daemon < number } + (daemon < number ? 1 : 0)
    }
    let before = (place(daemon) - place(last.daemon) + count - 1) % count
    return last.boot + Int64(before) * min(length, timeout / Int64(2 * count))
  }

  /// Who has changed a limit before that has no turn.
  private func oldest(at boot: Int64) -> Int64 { boot - 2 * timeout }

  /// Notes which rooms countdowns wait for, so that the next one waits for a later room.
  mutating func note(_ promised: [[UInt8]: Instant]) {
    guard !promised.isEmpty else { return }
    if promises.count >= Self.maximumPromises { promises = [:] }
    promises.merge(promised) { $1 }
  }

  fileprivate mutating func await(_ key: FleetKey) {
    if !awaited.contains(key) { awaited.append(key) }
  }
}

extension Fleet {
  /// How many changes are made at once.
  private static let maximumAtOnce = 64

  /// Holds an operation until it is its turn. Returns false if it is.
  func mustWait(_ operation: FleetOperation) -> Bool {
    guard operation.takes else { return false }
    let due = turns.turn(operation.key, of: daemon, at: boot)
    guard due > boot, due < operation.deadline else { return false }
    turns.await(operation.key)
    hold(operation, .awaitsTurn, until: due)
    return true
  }

  /// Continues with the operations whose turn it is, after other hosts have changed their limits.
  func passTurns() {
    turns.awaited.removeAll { lanes[$0]?.current?.state != .awaitsTurn }
    for key in turns.awaited where turns.turn(key, of: daemon, at: boot) <= boot {
      if let operation = lanes[key]?.current, operation.state == .awaitsTurn { decide(operation) }
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
    while parts.count < Self.maximumAtOnce, let next = lanes.removeNext(key, if: \.takes) {
      parts.append(next)
    }
    guard parts.count > count || !operation.several.isEmpty else { return operation }
    var whole = operation
    if operation.several.isEmpty {
      whole = FleetOperation(
        key, partition: operation.partition, .several, deadline: operation.deadline)
      whole.attempts = operation.attempts
      lanes.replaceCurrent(with: whole)
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
