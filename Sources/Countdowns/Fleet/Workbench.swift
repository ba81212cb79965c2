import Wire

/// Decides what a command does to a shared entity, in an engine that has only this entity, as the
/// record describes it. So a kind needs no second description of what its commands do.
final class Workbench {
  /// What a command or an action gets.
  struct Answer {
    var reply: [UInt8] = []
    var result = FleetAction.Result()
  }

  struct Outcome {
    enum Change: Equatable {
      case none
      /// The new record; nil if the entity is removed.
      case record([UInt8]?)
    }

    /// One for each operation.
    var answers: [Answer] = []
    var change = Change.none
    /// Events for the stream.
    var events: [UInt8] = []
    var statistics = EngineStatistics.Decisions()
    /// When something was due next, before the command ran.
    var nextDue: Int64?
    /// The name of the policy in force.
    var policy: String?
    var limits = SharedLimits()
    var notices: [EngineNotice] = []
    /// The connections that own the entity now, or run its action.
    var owners: [UInt64] = []
    /// Other hosts that were taken for gone.
    var gone: Set<UInt32> = []
  }

  private let dispatcher: Dispatcher
  private let batch = ChangeWriter(offset: 0)
  private var engine: Engine { dispatcher.engine }
  /// Returns whether an owner is there, by the fleet's number of it.
  var isOwnerThere: (UInt64) -> Bool = { _ in true }
  /// Returns this daemon's copy of a limit's record, how far its clock is ahead of a time, and the
  /// latest room that this daemon has promised.
  var copy: (_ key: [UInt8], _ time: Int64) -> SharedLimits.Copy? = { _, _ in nil }

  init(host: any CommandHost) {
    var settings = EngineSettings()
    // More events than a command causes; they are taken out at once.
    settings.eventsKept = 1_000
    settings.eventsHaveUsers = false
    let engine = Engine(
      settings: settings, at: Moment(boot: .zero, wall: .zero))
    dispatcher = Dispatcher(engine: engine, host: host)
    engine.decideForFleet { [unowned self] in isOwnerThere($0) }
  }

  /// Runs what is due for an entity, and then commands and actions, one after the other.
  ///
  /// - Parameters:
  ///   - owner: returns the fleet's number of the connection that asks.
  ///   - record: the current record; nil if there is none.
  ///   - time: the time on the server's clock.
  ///   - charged: what is charged for the command already.
  ///   - settings: the settings in force.
  ///   - isDegraded: whether the servers cannot be asked, so that other hosts may decide otherwise.
  func decide(
    _ operations: [FleetOperation], by owner: (Client) -> UInt64,
    about key: FleetKey, _ record: [UInt8]?, charged: [LimitShare] = [], at time: Int64,
    settings: EngineSettings, isDegraded: Bool = false
  ) -> Outcome {
    let now = Moment(boot: Instant(microseconds: time), wall: Instant(microseconds: time))
    engine.reload(settings, at: now)
    engine.raiseNumbers(to: time)
    engine.statistics.decisions = EngineStatistics.Decisions()
    defer { clear(key) }
    var outcome = Outcome()
    outcome.limits = SharedLimits(charged: charged) { [copy] in copy($0, time) }
    let askedKinds = key.kind.shared!.askedKinds
    engine.changes.copies = KindSet(askedKinds)
    engine.context = .workbench(askedKinds.isEmpty ? nil : outcome.limits)
    do throws(EntityRecord.Problem) {
      if let record { try restore(record, key, at: now) }
    } catch {
      let reply = Self.reply(to: error, about: key.kind)
      outcome.answers = operations.map { _ in Answer(reply: reply) }
      return outcome
    }
    engine.runDue(key, at: now)
    let (boot, wall) = engine.nextDeadline
    outcome.nextDue = [boot, wall].compactMap { $0?.microseconds }.min()
    for operation in operations {
      var answer = Answer()
      if let command = operation.command {
        answer.reply = run(command, by: owner(command.client), isDegraded, at: now)
      } else if let action = operation.action {
        do throws(EngineError) {
          answer.result = try action.body(engine, now)
        } catch {
          let noun = CommandSpec.Group.entities(key.kind).noun
          answer.result.problem = Self.error(error.text(about: quoted(key.key.span), noun))
        }
      }
      outcome.answers.append(answer)
    }
    outcome.policy = engine.store(of: key.kind).find(key.key.span).flatMap {
      key.kind.shared!.policy($0, in: engine)
    }
    outcome.owners = engine.connections(of: key)
    takeChanges(to: &outcome)
    // Events are for all hosts, even if they have left the record unchanged.
    if case .record(let new) = outcome.change, new == record, outcome.events.isEmpty {
      outcome.change = .none
    }
    outcome.statistics = engine.statistics.decisions
    outcome.notices = engine.notices
    return outcome
  }

  private func restore(
    _ record: [UInt8], _ key: FleetKey, at now: Moment
  ) throws(EntityRecord.Problem) {
    guard EntityRecord.key(of: record.span).map({ key.key.elementsEqual(record[$0]) }) ?? true
    else { throw .damaged }
    try key.kind.behavior.restore(record[...], at: 0, offset: 0, in: engine, at: now)
    // Generations must rise even if the clock that they come from was set back.
    engine.raiseNumbers(to: key.kind.shared!.newestNumber(0, in: engine))
  }

  private static func reply(
    to problem: EntityRecord.Problem, about kind: EntityKind
  ) -> [UInt8] {
    switch problem {
    case .damaged:
      error("ERR the servers have something else than a \(kind.name) of that name")
    case .otherVersion(let version):
      error(
        "UNAVAILABLE the servers have a \(kind.name) of that name in format \(version), and this "
          + "daemon reads up to \(EntityRecord.version): run the same release on all hosts")
    }
  }

  private func run(
    _ command: FleetCommand, by owner: UInt64, _ isDegraded: Bool, at now: Moment
  ) -> [UInt8] {
    let session = Session(connection: owner, peer: command.peer, address: "", at: now)
    session.rights = command.rights
    session.output = RESPEncoder(command.version)
    session.output.isDegraded = isDegraded
    command.arguments.withArguments { arguments in
      let call = Call(
        dispatcher: dispatcher, session: session, spec: command.spec, arguments: arguments,
        now: now)
      do throws(CommandError) {
        try command.spec.handler(call)
      } catch {
        session.output = RESPEncoder(command.version)
        session.output.error(error.text)
      }
    }
    return session.output.bytes
  }

  private func takeChanges(to outcome: inout Outcome) {
    guard engine.hasChanges else { return }
    batch.removeAll()
    engine.takeChanges(into: batch)
    _ = ChangeEntry.forEach(of: batch.bytes[...]) { entry in
      switch entry {
      case .current(_, _, let bytes): outcome.change = .record(Array(bytes))
      case .gone: outcome.change = .record(nil)
      case .events(let events, _): outcome.events = events.bytes
      case .clocks: break
      }
    }
  }

  private func clear(_ key: FleetKey) {
    let kind = key.kind.shared!
    if let index = engine.store(of: key.kind).find(key.key.span) { kind.forget(index, in: engine) }
    for kind in kind.askedKinds {
      let copies = engine.store(of: kind)
      for copy in 0..<UInt32(copies.indexEnd) where copies.contains(copy) {
        kind.shared?.forget(copy, in: engine)
      }
    }
    engine.notices.removeAll()
    engine.changes.forgetAll()
    engine.outbox.removeAll()
  }

  static func error(_ text: String) -> [UInt8] {
    var encoder = RESPEncoder()
    encoder.error(text)
    return encoder.bytes
  }
}

/// A command about a shared entity, kept so that it can be decided more than once.
struct FleetCommand {
  let spec: CommandSpec
  let arguments: KeptArguments
  let client: Client
  let peer: Peer
  let rights: Rights?
  let version: RESPEncoder.Version
}
