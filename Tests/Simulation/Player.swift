import Countdowns

/// Compares one model with the engine: commands, events and listings.
package protocol Playing: AnyObject {
  var kind: EntityKind { get }
  var entityCount: Int { get }
  var armedCount: Int { get }
  var keyCount: Int { get }

  /// Executes one random command.
  func play(_ engine: Engine, _ world: inout World) throws(Disagreement)
  /// Ends all entities; some end only some time later.
  func playEnding(_ engine: Engine, _ world: inout World) throws(Disagreement)
  /// Reads one page of a listing.
  func playListing(_ engine: Engine, _ world: inout World) throws(Disagreement)

  func owns(_ key: [UInt8]) -> Bool
  func channel(_ key: Int) -> [UInt8]
  func hear(_ event: SentEvent, _ world: World) throws(Disagreement)
  func listen(_ connection: UInt64, to key: Int?, _ engine: Engine, _ world: World)
    throws(Disagreement)
  func unlisten(_ connection: UInt64, from key: Int?)
  func checkSnapshots(_ key: Int?, _ world: World) throws(Disagreement)

  /// Processes what is due before these moments: the engine has noticed it.
  func settle(before bounds: Bounds, _ world: World)
  /// Returns whether something is due at these very moments: the engine may have noticed it or not.
  func isAmbiguous(_ bounds: Bounds, _ world: World) -> Bool
  func isTouchy(_ world: World) -> Bool
  /// Compares everything, once nothing is due.
  func checkAll(_ world: World) throws(Disagreement)
}

/// The earliest deadlines that the engine still has, in microseconds of each clock.
package struct Bounds {
  var boot = Int64.max
  var wall = Int64.max

  func on(_ clock: TimerClock) -> Int64 { clock == .boot ? boot : wall }
}

package final class Player<M: Model>: Playing {
  package let keyCount: Int
  private var model: M
  private let keys: [[UInt8]]
  private var known: [Key]
  /// The keys whose timers fired, in order: as received, and as expected.
  private var heardOrder: [Int] = []
  private var expectedOrder: [Int] = []
  private var patternListeners: Set<UInt64> = []
  private var listing: Listing?

  private struct Key {
    var heard: [Said] = []
    var expected: [Said] = []
    var snapshots: [M.Facts] = []
    var listeners: Set<UInt64> = []
    /// How many entities have had this key.
    var births = 0
    var recent: [(step: Int, now: Moment, command: M.Command)] = []
  }

  /// An entity that exists from the first page to the last must be on exactly one page.
  private struct Listing {
    var query: ListQuery
    var births: [Int: Int]
    var seen: [(key: Int, birth: Int)] = []
  }

  package init(keyCount: Int, _ settings: EngineSettings) {
    self.keyCount = keyCount
    model = M(keyCount: keyCount, settings)
    keys = (0..<keyCount).map { Array("\(M.keyPrefix)\($0)".utf8) }
    known = Array(repeating: Key(), count: keyCount)
  }

  package var kind: EntityKind { M.kind }
  package var entityCount: Int { (0..<keyCount).count { model.isCounted($0) } }
  package var armedCount: Int { (0..<keyCount).count { model.deadline($0) != nil } }

  package func owns(_ key: [UInt8]) -> Bool { number(key) != nil }
  package func channel(_ key: Int) -> [UInt8] { M.kind.channelPrefix + keys[key] }

  private func number(_ key: [UInt8]) -> Int? {
    guard key.first == UInt8(ascii: M.keyPrefix) else { return nil }
    return key.dropFirst().reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
  }

  // MARK: Commands

  package func play(_ engine: Engine, _ world: inout World) throws(Disagreement) {
    let key = Int.random(in: 0..<keyCount, using: &world.random)
    try play(model.command(key, &world), key, engine, &world)
  }

  package func playEnding(
    _ engine: Engine, _ world: inout World
  ) throws(Disagreement) {
    for key in 0..<keyCount where model.exists(key) {
      for command in M.ending where model.exists(key) { try play(command, key, engine, &world) }
    }
  }

  private func play(
    _ command: M.Command, _ key: Int, _ engine: Engine, _ world: inout World
  ) throws(Disagreement) {
    if known[key].recent.count >= 24 { known[key].recent.removeFirst(12) }
    known[key].recent.append((world.step, world.now, command))

    let now = world.now
    let client = world.client()
    let before = (all: engine.entityCount, ofUser: engine.entityCount(of: client.uid))
    let name = keys[key]
    let asked = Result { () throws(EngineError) in
      try M.ask(command, name.span, engine, by: client, at: now)
    }
    for event in engine.takeOutbox() { try hear(event, world) }

    let settles = model.settles(command, key)
    if settles { settle(key, world) }
    if let problem = world.problem(withLimitsOf: client, before: before, engine) {
      throw disagreement(key, problem, world)
    }
    let existed = model.exists(key)
    var untouched: (model: M, world: World)?
    if case .failure(.limit) = asked { untouched = (model, world) }
    let expected: Result<Answer<M.Facts>, EngineError>
    do throws(EngineError) {
      expected = .success(try model.answer(command, key, &world))
    } catch {
      expected = .failure(error)
    }
    if case .failure(let error) = asked, case .success = expected, let untouched,
      model.adds(key, existed: existed), world.isFull(error, for: client, adding: 1, engine)
    {
      (model, world) = untouched
      if settles { try check(key, world) }
      return
    }
    take(key, existed: existed)
    if asked != expected { throw disagreement(key, "the answer", asked, expected, world) }
    if settles { try check(key, world) }
  }

  // MARK: Time

  private func settle(_ key: Int, _ world: World) {
    let existed = model.exists(key)
    model.settle(key, world)
    take(key, existed: existed)
  }

  /// Adds the events of the model to the expected events of a key.
  private func take(_ key: Int, existed: Bool) {
    if !existed, model.exists(key) { known[key].births += 1 }
    guard !model.said.isEmpty else { return }
    if isListenedTo(key) {
      known[key].expected += model.said
      for said in model.said where said.name == .fired { expectedOrder.append(key) }
    }
    model.said.removeAll(keepingCapacity: true)
  }

  package func settle(before bounds: Bounds, _ world: World) {
    for key in model.order {
      if bounds.boot == .max, bounds.wall == .max {
        settle(key, world)
      } else if let (clock, deadline) = model.deadline(key), deadline < bounds.on(clock),
        deadline <= world.now.microseconds(on: clock)
      {
        settle(key, world)
      }
    }
  }

  package func isAmbiguous(_ bounds: Bounds, _ world: World) -> Bool {
    guard M.noticeMatters else { return false }
    return (0..<keyCount).contains { key in
      guard let (clock, deadline) = model.deadline(key) else { return false }
      return deadline == bounds.on(clock) && deadline <= world.now.microseconds(on: clock)
    }
  }

  package func isTouchy(_ world: World) -> Bool { model.isTouchy(world) }

  package func checkAll(_ world: World) throws(Disagreement) {
    for key in 0..<keyCount {
      try check(key, world)
      guard isListenedTo(key), let problem = model.problem(ofListenersTo: key, world) else {
        continue
      }
      throw disagreement(key, problem, world)
    }
    if heardOrder != expectedOrder, !world.isOrderUnknown {
      throw disagreement(
        heardOrder.last ?? 0, "the order of what fired", heardOrder.map { "\(M.keyPrefix)\($0)" },
        expectedOrder.map { "\(M.keyPrefix)\($0)" }, world)
    }
    heardOrder = []
    expectedOrder = []
  }

  private func check(_ key: Int, _ world: World) throws(Disagreement) {
    if known[key].heard != known[key].expected {
      throw disagreement(key, "the events", known[key].heard, known[key].expected, world)
    }
    known[key].heard.removeAll(keepingCapacity: true)
    known[key].expected.removeAll(keepingCapacity: true)
  }

  // MARK: Listening

  private func isListenedTo(_ key: Int) -> Bool {
    !patternListeners.isEmpty || !known[key].listeners.isEmpty
  }

  /// Subscribes a connection to a key, or with a pattern to all keys if `key` is nil.
  package func listen(
    _ connection: UInt64, to key: Int?, _ engine: Engine, _ world: World
  ) throws(Disagreement) {
    let client = Client(connection: connection, uid: 1_000)
    guard let key else {
      patternListeners.insert(connection)
      return
    }
    _ = engine.subscribe(client, to: channel(key), at: world.now)
    for event in engine.takeOutbox() { try hear(event, world) }
    settle(key, world)
    try check(key, world)
    known[key].listeners.insert(connection)
    engine.snapshot(of: channel(key), to: connection, at: world.now)
    for event in engine.takeOutbox() { try hear(event, world) }
    try checkSnapshots(key, world)
  }

  package func unlisten(_ connection: UInt64, from key: Int?) {
    guard let key else {
      patternListeners.remove(connection)
      return
    }
    known[key].listeners.remove(connection)
  }

  /// Checks that a new listener of a key, or of all keys, has received the snapshots.
  package func checkSnapshots(_ key: Int?, _ world: World) throws(Disagreement) {
    for key in key.map({ $0...$0 }) ?? 0...keyCount - 1 {
      let expected = model.facts(key, world)
      if known[key].snapshots != expected {
        throw disagreement(key, "the snapshot", known[key].snapshots, expected, world)
      }
      known[key].snapshots = []
    }
  }

  package func hear(_ event: SentEvent, _ world: World) throws(Disagreement) {
    guard let key = number(event.key), key < keyCount else {
      throw Disagreement(description: "an event of a key that nobody knows: \(event)")
    }
    let listeners = known[key].listeners
    guard event.name != .snapshot else {
      if let facts = M.facts(event.subject) { known[key].snapshots.append(facts) }
      var problem: String?
      _ = model.hears(event, key, world, problem: &problem)
      return
    }
    let direct = event.audience.subscribers.filter { world.connections.contains($0) }
    let byPattern = event.audience.patterns.flatMap(\.subscribers).filter {
      world.connections.contains($0)
    }
    if Set(direct) != listeners || Set(byPattern) != patternListeners {
      throw disagreement(
        key, "who hears '\(event.name.text)'", [direct, byPattern],
        [listeners.sorted(), patternListeners.sorted()], world)
    }
    if direct.isEmpty, byPattern.isEmpty { return }

    var due: Int64?
    if let late = event.lateMicroseconds {
      var clock = TimerClock.boot
      if let view = event.subject as? TimerView { clock = view.clock }
      due = world.now.microseconds(on: clock) - late
      let onWall = world.now.wall.microseconds - late
      if late < 0 { throw disagreement(key, "\(event.name.text) is early by \(-late) µs", world) }
      if event.dueUnixMS != onWall / 1_000 {
        throw disagreement(key, "due_unix_ms", event.dueUnixMS, onWall / 1_000, world)
      }
    }
    var problem: String?
    let isFree = model.hears(event, key, world, problem: &problem)
    if let problem { throw disagreement(key, problem, world) }
    if isFree { return }
    known[key].heard.append(
      Said(
        event.name, event.generation, due: due, reason: event.reason,
        end: (event.subject as? HUDView)?.end,
        superseded: (event.subject as? HUDView)?.superseded,
        missed: (event.subject as? TimerView)?.justMissed, detail: M.detail(event)))
    if event.name == .fired { heardOrder.append(key) }
    // Where the moment of noticing does not matter, it was nevertheless before the next event, for
    // example the end of the owner.
    if !M.noticeMatters, event.lateMicroseconds != nil { settle(key, world) }
  }

  // MARK: Listings

  package func playListing(
    _ engine: Engine, _ world: inout World
  ) throws(Disagreement) {
    var listing = self.listing ?? begin(&world)
    let page = engine.list(M.kind, listing.query, at: world.now)
    for view in page.views {
      guard let key = number(view.key) else { continue }
      let facts = M.facts(view)
      let expected = model.facts(key, world).last
      if facts != expected {
        throw disagreement(key, "the view in a list", facts, expected, world)
      }
      listing.seen.append((key, known[key].births))
    }
    listing.query.cursor = page.cursor
    guard page.cursor == 0 else {
      self.listing = listing
      return
    }
    self.listing = nil
    for key in 0..<keyCount {
      let births = listing.seen.filter { $0.key == key }.map(\.birth)
      if Set(births).count < births.count { throw disagreement(key, "listed twice", world) }
      if model.exists(key), listing.births[key] == known[key].births, births.isEmpty {
        throw disagreement(key, "not listed, though it was there all the time", world)
      }
    }
  }

  private func begin(_ world: inout World) -> Listing {
    var query = ListQuery()
    query.limit = Int.random(in: 1...4, using: &world.random)
    let isForOnes = world.chance(oneIn: 3)
    if isForOnes { query.pattern = Array("*1".utf8) }
    var births: [Int: Int] = [:]
    for key in 0..<keyCount where model.exists(key) && (!isForOnes || key % 10 == 1) {
      births[key] = known[key].births
    }
    return Listing(query: query, births: births)
  }

  // MARK: Disagreement

  private func disagreement<A, B>(
    _ key: Int, _ what: String, _ engine: A, _ model: B, _ world: World
  ) -> Disagreement {
    disagreement(key, "\(what)\n  the engine: \(engine)\n  the model:  \(model)", world)
  }

  private func disagreement(_ key: Int, _ what: String, _ world: World) -> Disagreement {
    var lines = [
      "step \(world.step), at \(world.now.text), \(M.kind.name) \(M.keyPrefix)\(key): \(what)",
      "the last commands on it:",
    ]
    lines += known[key].recent.suffix(12).map {
      "  step \($0.step), at \($0.now.text): \($0.command)"
    }
    lines.append("the last changes of time and connections:")
    lines += world.faults.suffix(12).map { "  \($0)" }
    // Without the names of modules and models, which make the text longer.
    var text = lines.joined(separator: "\n")
    for noise in ["Simulation.", "Countdowns.", "\(M.self)."] {
      text = text.replacing(noise, with: "")
    }
    return Disagreement(description: text)
  }
}
