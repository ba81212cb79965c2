import TimerWheel

/// All entities, and the timer wheels that wake them.
///
/// Commands and time go in, views and events come out. The engine knows no bytes, threads, clocks
/// or files: each call receives the client and the time, and events wait in `outbox`. Not
/// thread-safe: one event loop owns it.
///
/// Before a command touches an entity, everything that is due for that entity happens. So a reply
/// never depends on how far behind the wheel is.
package final class Engine {
  package private(set) var settings: EngineSettings
  package var statistics = EngineStatistics()

  let stores: Stores
  var connections = Connections()
  var subscriptions = Subscriptions()
  var snapshotWalks: [UInt64: SnapshotWalks] = [:]
  var changes = Changes()
  var context = DecisionContext.local
  /// Whether commands must not change stored entities, as changes cannot be stored at present.
  /// Time still passes: what becomes ready becomes ready.
  package var isReadOnly = false

  /// Whether `settings.limits.memory` is reached, which only the process knows.
  package var isMemoryFull = false { didSet { limitEntities() } }
  /// The most entities at present.
  private var maximumEntities: Int

  private func limitEntities() { maximumEntities = isMemoryFull ? 0 : settings.limits.entities }

  /// The wheels of the boot clock and of the wall clock, in microseconds.
  private var wheel: TimerWheel
  private var wallWheels: WallWheels
  var wallClock: WallClockWatch
  /// The most timers armed at once since memory was last released.
  private var peakArmed = 0
  /// A peak of this many timers or fewer takes too little memory to be worth releasing.
  private static let shrinkThreshold = 1 << 16

  private(set) var lastGeneration: Int64
  /// The number of the newest event.
  package internal(set) var lastSequence: Int64
  var outbox = Outbox()
  package var observer: (any EventObserver)?
  /// Keeps what is decided; nil if nobody wants to know.
  package var journal: Journal?
  /// The newest events of entities without an owner.
  package var eventLog: EventLog

  package init(settings: EngineSettings = EngineSettings(), at now: Moment) {
    self.settings = settings
    maximumEntities = settings.limits.entities
    stores = Stores(settings)
    wheel = TimerWheel(startingAt: now.boot.tick)
    wallWheels = WallWheels(startingAt: now.wall.tick)
    wallClock = WallClockWatch(now)
    lastGeneration = settings.firstGeneration - 1
    lastSequence = settings.firstGeneration - 1
    eventLog = EventLog(
      limit: settings.eventsKept, bytes: settings.eventBytes,
      hasUsers: settings.eventsHaveUsers, after: lastSequence)
  }

  /// Applies new settings. Running entities keep the settings they were started with.
  package func reload(_ settings: EngineSettings, at now: Moment) {
    willReload(settings, at: now)
    self.settings = settings
    limitEntities()
    stores.reload(settings, at: now)
  }

  package var entityCount: Int { stores.count }
  package func entityCount(of uid: UInt32) -> Int { connections.entities(of: uid) }
  /// The number of timers armed in the wheels.
  package var armedCount: Int { wheel.count + armedOnWall }
  var armedOnWall: Int { wallWheels.count }

  // MARK: Connections

  package func connect(_ connection: UInt64) { connections.join(connection) }

  /// Closes a connection. O(1): its entities have no effect from now on; `advance` removes them.
  package func disconnect(_ connection: UInt64) {
    connections.leave(connection)
    stores.connectionLeft()
  }

  // MARK: Time

  /// When `advance` should next be called, on each clock; nil if nothing is pending there.
  package var nextDeadline: (boot: Instant?, wall: Instant?) {
    (wheel.nextDeadline.map(Instant.init(tick:)), wallWheels.nextDeadline.map(Instant.init(tick:)))
  }

  /// Returns until when all that was due on the boot clock has been run.
  func ran(until now: Instant) -> Instant {
    guard let next = wheel.nextDeadline.map(Instant.init(tick:)), next <= now else { return now }
    return next + Interval(microseconds: -1)
  }

  /// Runs everything due by `now`, on each clock in the order of deadlines, and cleans up after
  /// connections that were closed.
  ///
  /// - Parameter budget: about how many steps it may take, each O(1), so that a mass expiry does
  ///   not keep sockets waiting.
  /// - Returns: whether it is finished; if not, call it again soon.
  package func advance(to now: Moment, budget: Int) -> Bool {
    wallClock.look(at: now)
    wallWheels.follow(now.wall.tick)
    var budget = budget
    while let due = wheel.advance(to: now.boot.tick, budget: &budget) {
      alarmFired(EntityRef(payload: due.payload), due: Instant(tick: due.deadline), at: now)
    }
    wallWheels.settle(budget: &budget) { setAlarm(ofTimer: $0, $1) }
    followWallClock(budget: &budget, at: now)
    while let due = wallWheels.advance(to: now.wall.tick, budget: &budget) {
      alarmFired(EntityRef(payload: due.payload), due: Instant(tick: due.deadline), at: now)
    }
    adoptRules(budget: &budget)
    closeScopes(at: now, budget: &budget)
    clearUp(at: now, budget: &budget)
    releaseUnusedMemory()
    return budget > 0
  }

  /// Releases the memory of a peak once less than an eighth of its timers are left.
  private func releaseUnusedMemory() {
    stores.releaseUnusedMemory()
    peakArmed = max(peakArmed, armedCount)
    guard armedCount < peakArmed / 8, peakArmed > Self.shrinkThreshold else { return }
    wheel.releaseUnusedMemory()
    wallWheels.releaseUnusedMemory()
    peakArmed = armedCount
  }

  private func alarmFired(_ entity: EntityRef, due: Instant, at now: Moment) {
    if context.copiedKinds.contains(entity.kind) { return expireCopy(entity, due: due, at: now) }
    entity.kind.behavior.alarmFired(entity.index, due: due, in: self, at: now)
  }

  private func clearUp(at now: Moment, budget: inout Int) {
    while budget > 0, connections.hasDeparted {
      let (connection, entity) = connections.nextDeparted()
      if let entity {
        budget -= 1
        ownerGone(entity, .connection(connection), at: now)
        // One scope at a time, so that the list of scopes to close never grows long.
        closeScopes(at: now, budget: &budget)
      } else {
        subscriptions.unsubscribe(connection, budget: &budget)
        guard budget > 0 else { return }
        snapshotWalks[connection] = nil
        connections.forgetDeparted(connection)
      }
    }
  }

  /// Notifies an entity that an owner has closed. The index may be another entity's by now.
  func ownerGone(_ entity: EntityRef, _ owner: Owner, at now: Moment) {
    entity.kind.behavior.ownerGone(entity.index, owner, in: self, at: now)
  }

  // MARK: Alarms

  /// Returns when a timer of the boot clock fires, by its record in the wheel.
  func due(ofRecord timer: UInt32) -> Instant? {
    wheel.deadline(of: wheel.token(ofRecord: timer)).map(Instant.init(tick:))
  }

  /// Arms, moves or disarms a timer of the boot clock, by its record in the wheel. O(1).
  func arm(record: UInt32?, for deadline: Instant?, _ entity: EntityRef) -> UInt32? {
    let alarm = record.map { wheel.token(ofRecord: $0) }
    return Self.arm(alarm, for: deadline, entity, in: &wheel)?.record
  }

  /// Arms, moves or disarms an entity's one timer. O(1).
  func arm(
    _ alarm: TimerWheel.Token?, for deadline: Instant?, _ entity: EntityRef,
    on clock: TimerClock = .boot
  ) -> TimerWheel.Token? {
    switch clock {
    case .boot: Self.arm(alarm, for: deadline, entity, in: &wheel)
    case .wall: wallWheels.arm(alarm, for: deadline?.tick, entity.payload)
    }
  }

  private static func arm(
    _ alarm: TimerWheel.Token?, for deadline: Instant?, _ entity: EntityRef,
    in wheel: inout TimerWheel
  ) -> TimerWheel.Token? {
    guard let deadline else {
      if let alarm { wheel.cancel(alarm) }
      return nil
    }
    guard let alarm else { return wheel.schedule(deadline: deadline.tick, payload: entity.payload) }
    if wheel.deadline(of: alarm) != deadline.tick {
      wheel.reschedule(alarm, deadline: deadline.tick)
    }
    return alarm
  }

  // MARK: Numbers

  /// Numbers later generations and events above `number`.
  func raiseNumbers(to number: Int64) {
    // A damaged record may have any number, and the next ones rise from there.
    let number = min(number, 1 << 60)
    lastGeneration = max(lastGeneration, number)
    lastSequence = max(lastSequence, number)
  }

  /// Gives the next generation a number.
  func number(next generation: Generation) { lastGeneration = generation.value - 1 }

  func newGeneration() -> Generation {
    lastGeneration += 1
    return Generation(lastGeneration)
  }

  func check(_ wanted: Generation?, against current: Generation) throws(EngineError) {
    if let wanted, wanted != current { throw .stale(now: current) }
  }

  /// Refuses new entities beyond the limits.
  func checkLimits(_ client: Client, adding count: Int = 1) throws(EngineError) {
    guard stores.countForLimits <= maximumEntities - count else {
      if isMemoryFull { throw .limit(name: "max-memory", value: settings.limits.memory) }
      throw .limit(name: "max-entities", value: settings.limits.entities)
    }
    try checkUserLimit(client, adding: count)
  }

  /// Refuses new entities beyond the user's limit, where the new ones replace as many others.
  func checkUserLimit(_ client: Client, adding count: Int = 1) throws(EngineError) {
    let ofUser = connections.entities(of: client.uid)
    guard ofUser <= settings.limits.entitiesPerUser - count
    else {
      throw .limit(name: "max-entities-per-uid", value: settings.limits.entitiesPerUser)
    }
  }

  /// How much of some limits is used: the most of any user or connection. O(users + connections).
  struct LimitUse {
    var entitiesOfUser, keyBytes, patternsOfUser, subscriptionsOfConnection: Int
  }

  var limitUse: LimitUse {
    LimitUse(
      entitiesOfUser: connections.maximumEntitiesOfUser, keyBytes: stores.keyBytes,
      patternsOfUser: subscriptions.maximumPatternsOfUser,
      subscriptionsOfConnection: subscriptions.maximumOfConnection)
  }

  // MARK: Events

  package var hasOutbox: Bool { !outbox.isEmpty }
  /// The bytes of the events that have not been taken.
  var undeliveredLength: Int { outbox.length }

  /// Takes the events that have not been delivered yet. Later events reuse the memory of `empty`.
  package func exchangeOutbox(_ empty: inout Outbox) {
    precondition(empty.isEmpty, "what was taken before has been delivered")
    swap(&outbox, &empty)
  }

  /// Numbers an event. Logs it if `isLogged`, or if the log has room for it and it reports that an
  /// entity ended with its owner. Sends it to its subscribers, if any.
  ///
  /// - Parameters:
  ///   - key: the entity's key; not used while there are no subscriptions at all.
  ///   - user: the user whose share of the log the event takes: who has made the entity.
  ///   - view: makes the view; called only if the event is logged or sent.
  func publish(
    _ kind: EntityKind, _ key: [UInt8], _ head: Event.Head,
    of user: UInt32 = EventCoding.noUser, isLogged: Bool = false, isEndOfOwned: Bool = false,
    _ view: () -> some EntityView
  ) {
    var head = head
    head.sequence = newSequence()
    let audience = self.audience(kind, key.span)
    let isLogged =
      isLogged && eventLog.isOn || isEndOfOwned && eventLog.takesEndOfOwned(head.sequence)
    guard isLogged || audience != nil else { return }
    let view = view()
    if isLogged { eventLog.append(head, view, of: user) }
    if let audience { send(head, view, kind, key.span, to: audience) }
  }

  /// Returns the number of the next event, and counts the event.
  func newSequence() -> Int64 {
    lastSequence += 1
    statistics.events += 1
    return lastSequence
  }

  /// Returns the subscribers of an entity's events; nil if there are none.
  func audience(_ kind: EntityKind, _ key: Span<UInt8>) -> Audience? {
    subscriptions.isAnythingWatched ? subscriptions.audience(kind, key) : nil
  }

  func send(
    _ head: Event.Head, _ view: some EntityView, _ kind: EntityKind, _ key: Span<UInt8>,
    to audience: Audience
  ) {
    statistics.publications += 1
    observer?.observe(head, view, kind, key, to: audience)
    outbox.append(
      kind, key, head.sequence, canBeMerged: head.name.canBeMerged, to: audience
    ) { head.write(view, key: key, to: &$0) }
  }

  /// Sends a snapshot of the current state to one connection.
  func sendSnapshot(_ view: some EntityView, to connection: UInt64, pattern: [UInt8]?) {
    statistics.snapshots += 1
    var head = Event.Head(.snapshot, view.generation)
    head.sequence = lastSequence
    let audience = Audience(
      subscribers: pattern == nil ? [connection] : [],
      patterns: pattern.map { [($0, [connection])] } ?? [])
    let position = context.copies?.position(view.kind, view.key)
    observer?.observe(head, view, view.kind, view.key.span, to: audience)
    outbox.append(view.kind, view.key.span, head.sequence, canBeMerged: false, to: audience) {
      head.write(view, key: view.key.span, to: &$0)
      if let position { $0.field("position", position) }
    }
  }
}

extension Instant {
  var tick: TimerWheel.Tick { TimerWheel.Tick(max(microseconds, 0)) }
  init(tick: TimerWheel.Tick) { self.init(microseconds: Int64(clamping: tick)) }
}
