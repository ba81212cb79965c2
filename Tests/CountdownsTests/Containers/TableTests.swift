import Memory
import SeededRandom
import Testing
import TimerWheel

@testable import Countdowns

/// The tables against a Dictionary, over random histories.
@Suite struct TableTests {
  private struct Thing: KeyedEntity, Equatable {
    let key: [UInt8]
    var value: Int
    var alarm: TimerWheel.Token?

    var generation: Generation { Generation(1) }
    var owner: Owner { .none }
    var uid: UInt32 { 0 }
    var nextExpiry: Instant? { nil }
  }

  @Test(arguments: 0..<20)
  func entityTableAgreesWithADictionaryAndIndicesStay(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let table = EntityTable<Thing>()
    var model: [[UInt8]: (index: UInt32, value: Int)] = [:]
    let keyCount = [3, 50, 2_000][Int(seed % 3)]
    for step in 0..<4_000 {
      let key = Array("\(Int.random(in: 0..<keyCount, using: &generator))".utf8)
      // The table grows first and shrinks later, so it is resized both ways.
      let grows = Int.random(in: 0..<10, using: &generator) < (step < 2_000 ? 7 : 3)
      if let found = table.find(key) {
        #expect(model[key]?.index == found)
        #expect(table[found].value == model[key]?.value)
        if !grows {
          #expect(table.remove(found).key == key)
          model[key] = nil
          #expect(table.find(key) == nil)
        } else {
          table[found].value = step
          model[key]?.value = step
        }
      } else {
        #expect(model[key] == nil)
        if grows {
          let index = table.insert(Thing(key: key, value: step))
          #expect(!model.values.contains { $0.index == index })
          model[key] = (index, step)
        }
      }
      #expect(table.count == model.count)
    }
    for (key, known) in model {
      #expect(table.find(key) == known.index)
      #expect(table.entity(at: known.index) == Thing(key: key, value: known.value))
    }
    for known in model.values { table.remove(known.index) }
    #expect(table.count == 0)
    #expect(table.indexEnd == 0)
    #expect(table.entity(at: 0) == nil)
  }

  @Test(arguments: 0..<20)
  func aPlaceThatIsTakenIsNotGivenOutTwice(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    let table = EntityTable<Thing>()
    let countdowns = CountdownStore()
    var taken: Set<UInt32> = []
    let maximum = [3, 100, 1_000][Int(seed % 3)]
    func expect(_ offset: UInt32, isNew: Bool) {
      #expect(!taken.contains(offset) == isNew)
      #expect(table.contains(offset) == countdowns.contains(offset))
    }
    for step in 0..<6_000 {
      let key = Array("\(step)".utf8)
      let new = CountdownEntity(
        machine: Countdown(
          Countdown.Plan(count: 1, every: .seconds(1))!, .idle(since: .init(microseconds: 0)),
          sends: 0, isRefunded: false),
        generation: Generation(Int64(step)), uid: 0, titles: nil)
      switch Int.random(in: 0..<5, using: &generator) {
      case 0 where taken.count < maximum:
        let offset = table.insert(Thing(key: key, value: step))
        let same = countdowns.insert(key.span, hash: KeyIndex.hash(key.span), new)!
        #expect(offset == same)
        expect(offset, isNew: true)
        taken.insert(offset)
      case 1 where taken.count < maximum:
        // Inserts at a given offset, as restoring does: any free offset, or one beyond the end.
        let offset = UInt32.random(in: 0..<UInt32(maximum + 200), using: &generator)
        guard !taken.contains(offset) else { continue }
        table.insert(Thing(key: key, value: step), at: offset)
        let isIn = countdowns.insert(key.span, new, at: offset)
        #expect(isIn)
        taken.insert(offset)
      case 2, 3:
        guard let offset = taken.randomElement(using: &generator) else { continue }
        table.remove(offset)
        countdowns.remove(offset)
        taken.remove(offset)
      default: break
      }
      #expect(table.count == taken.count && countdowns.count == taken.count)
      // Cursors start over once the table is empty, and not before.
      #expect((table.indexEnd == 0) == taken.isEmpty)
      #expect(table.indexEnd == countdowns.indexEnd)
    }
    for offset in taken { #expect(table.contains(offset) && countdowns.contains(offset)) }
  }

  @Test func aPreparedKeyHasTheHashThatItHas() {
    var generator = SeededGenerator(seed: 1)
    let countdowns = CountdownStore()
    var keys: [[UInt8]] = []
    for length in 1..<40 {
      for _ in 0..<20 {
        // Many keys differ in one byte.
        var key = [UInt8](repeating: 7, count: length)
        key[Int.random(in: 0..<length, using: &generator)] = UInt8.random(
          in: 0..<3, using: &generator)
        keys.append(key)
      }
    }
    for key in keys.shuffled(using: &generator) {
      countdowns.prepare(key: key.span)
      for other in [key] + keys.shuffled(using: &generator).prefix(10) {
        #expect(countdowns.hash(other.span) == KeyIndex.hash(other.span))
      }
    }
  }

  @Test(arguments: 0..<10)
  func entitySetAgreesWithASet(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var set = EntitySet()
    var model: Set<EntityRef> = []
    for _ in 0..<3_000 {
      let kind = EntityKind.allCases.randomElement(using: &generator)!
      let index = UInt32.random(in: 0..<150, using: &generator) &* (seed % 2 == 0 ? 1 : 7_919)
      let entity = EntityRef(kind, index)
      if Bool.random(using: &generator) {
        set.insert(entity)
        model.insert(entity)
      } else {
        set.remove(entity)
        model.remove(entity)
      }
      #expect(set.count == model.count)
    }
    var found: [EntityRef] = []
    var iterator = set.makeIterator()
    while let entity = iterator.next() { found.append(entity) }
    #expect(found.count == model.count)
    #expect(Set(found) == model)
    for entity in model { set.remove(entity) }
    #expect(set.isEmpty)
  }

  @Test(arguments: 0..<20)
  func keyIndexFindsKeysWhoseHashesCollide(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var index = KeyIndex()
    var model: [UInt32: KeyIndex.Hash] = [:]
    // Few places, some at the end of a segment, so that clusters wrap around. Hashes with the same
    // offset differ in their first bits or in the middle, or not at all.
    let places: [KeyIndex.Hash] = [0, 1, 2, 1_021, 1_022, 1_023]
    let starts: [KeyIndex.Hash] = [0, 1 << 31, 1 << 30, 3 << 30, 0xFFFF << 10]
    for step in 0..<6_000 {
      let entity = UInt32.random(in: 0..<300, using: &generator)
      if let hash = model[entity] {
        #expect(index.find(hash: hash) { $0 == entity } == entity)
        if Bool.random(using: &generator) {
          index.remove(entity, hash: hash)
          model[entity] = nil
          #expect(index.find(hash: hash) { $0 == entity } == nil)
        }
      } else {
        // Later, hashes are random, so that removed entries fill the segment.
        let hash =
          step < 2_000
          ? places.randomElement(using: &generator)! | starts.randomElement(using: &generator)!
          : KeyIndex.Hash.random(in: 0...KeyIndex.Hash.max, using: &generator)
        index.insert(entity, hash: hash) { [model] in model[$0]! }
        model[entity] = hash
      }
      #expect(index.count == model.count)
      let probe = model.randomElement(using: &generator)
      if let probe { #expect(index.find(hash: probe.value) { $0 == probe.key } == probe.key) }
    }
    for (entity, hash) in model {
      #expect(index.find(hash: hash) { $0 == entity } == entity)
    }
  }

  @Test func keyIndexLosesNothingWhenSegmentsSplitOrMostKeysAreRemoved() {
    var index = KeyIndex()
    let hash = { (entity: UInt32) in
      KeyIndex.hash("\(entity)".utf8.span)
    }
    let count: UInt32 = 50_000
    for entity in 0..<count { index.insert(entity, hash: hash(entity), hashOf: hash) }
    for entity in 0..<count where entity % 7 != 0 { index.remove(entity, hash: hash(entity)) }
    for entity in count..<2 * count { index.insert(entity, hash: hash(entity), hashOf: hash) }
    for entity in 0..<2 * count {
      let isAlive = entity >= count || entity % 7 == 0
      let found = index.find(hash: hash(entity)) { $0 == entity }
      #expect((found != nil) == isAlive, "\(entity)")
    }
    #expect(index.count == Int(count) + Int(count + 6) / 7)
  }

  @Test(arguments: 0..<20)
  func countdownTableAgreesWithADictionaryAndIndicesStay(seed: UInt64) {
    struct Known: Equatable {
      var machine: Countdown
      var generation: Generation
      var owner: Owner
      var uid: UInt32
      var titles: Titles?
      var meta: [UInt8]?

      init(_ entity: CountdownEntity) {
        machine = entity.machine
        generation = entity.generation
        owner = entity.owner
        uid = entity.uid
        titles = entity.titles
        meta = entity.annotations.meta
      }
    }

    var generator = SeededGenerator(seed: seed)
    func pick<T>(_ values: T...) -> T { values.randomElement(using: &generator)! }
    func entity() -> CountdownEntity {
      let plan = Countdown.Plan(
        count: pick(1, 60, UInt32(Int32.max)), every: pick(.milliseconds(1), .milliseconds(146)),
        firesAtOnce: pick(true, false))!
      let time = pick(Int64(-1), 0, 1, 1 << 60, -(1 << 60), 1_790_000_000_000_000)
      let moment = Instant(microseconds: time)
      let phase = pick(
        Countdown.Phase.counting(until: moment), .paused(left: Interval(microseconds: time)),
        .ready(since: moment), .idle(since: moment))
      var entity = CountdownEntity(
        machine: Countdown(
          plan, phase, sends: pick(0, 1, 1 << 28 - 1), isRefunded: pick(true, false)),
        generation: Generation(pick(0, 1_790_000_000_000_000, .max)), uid: pick(0, .max),
        titles: Titles.of(counting: pick(nil, Array("%ds".utf8)), ready: pick(nil, [0xFF])))
      entity.owner = pick(.none, .none, .connection(.max))
      entity.annotations.meta = pick(nil, nil, [1, 2, 3])
      return entity
    }

    let table = CountdownStore()
    var model: [[UInt8]: (index: UInt32, known: Known, timer: UInt32?)] = [:]
    let keyCount = [3, 50, 3_000][Int(seed % 3)]
    for step in 0..<6_000 {
      let number = Int.random(in: 0..<keyCount, using: &generator)
      // Keys of all lengths, which differ in their first bytes.
      var wanted = Array("\(number)".utf8)
      wanted += Array(repeating: 0, count: min(number, 512 - wanted.count))
      let grows = Int.random(in: 0..<10, using: &generator) < (step < 3_000 ? 7 : 3)
      if let found = table.find(wanted) {
        #expect(model[wanted]?.index == found)
        #expect(Known(table[found]) == model[wanted]?.known)
        #expect(table.owner(found) == model[wanted]?.known.owner)
        #expect(table.generation(found) == model[wanted]?.known.generation)
        #expect(table.key(found) == wanted)
        #expect(table.timers[found] == model[wanted]?.timer)
        if !grows {
          table.remove(found)
          model[wanted] = nil
          #expect(table.find(wanted) == nil)
          #expect(table.contains(found) == false)
        } else {
          let new = entity()
          table[found] = new
          model[wanted]?.known = Known(new)
          // The timer stays, as it is set separately.
          #expect(table.timers[found] == model[wanted]?.timer)
          let timer: UInt32? = pick(nil, 0, 7, .max)
          table.timers[found] = timer
          model[wanted]?.timer = timer
        }
      } else {
        #expect(model[wanted] == nil)
        if grows {
          let new = entity()
          let index = table.insert(wanted.span, hash: KeyIndex.hash(wanted.span), new)!
          #expect(!model.values.contains { $0.index == index })
          model[wanted] = (index, Known(new), nil)
        }
      }
      #expect(table.count == model.count)
    }
    for (key, entry) in model {
      #expect(table.find(key) == entry.index)
      #expect(Known(table[entry.index]) == entry.known)
    }
    for entry in model.values { table.remove(entry.index) }
    #expect(table.count == 0)
    #expect(table.indexEnd == 0)
    #expect(table.state(0) == nil)
  }

  @Test func theFewCountdownsThatAPeakLeavesAreAllThereOnceItsMemoryIsGivenBack() {
    func key(_ number: Int) -> [UInt8] { Array("peak \(number)".utf8) }
    func entity(_ number: Int) -> CountdownEntity {
      CountdownEntity(
        machine: Countdown(
          Countdown.Plan(count: 1, every: .seconds(1))!, at: Instant(microseconds: Int64(number))),
        generation: Generation(Int64(number)), uid: 0, titles: nil)
    }
    let table = CountdownStore()
    let count = 100_000
    for number in 0..<count {
      let hash = KeyIndex.hash(key(number).span)
      #expect(table.insert(key(number).span, hash: hash, entity(number)) == UInt32(number))
    }
    table.releaseUnusedMemory()
    for number in 0..<count where number % 1_000 != 7 { table.remove(UInt32(number)) }
    table.releaseUnusedMemory()
    #expect(table.count == count / 1_000)
    for number in 0..<count {
      let isLeft = number % 1_000 == 7
      #expect(table.find(key(number)) == (isLeft ? UInt32(number) : nil))
      guard isLeft else { continue }
      #expect(table.key(UInt32(number)) == key(number))
      #expect(table.generation(UInt32(number)) == Generation(Int64(number)))
    }
    // The places in between can be used again.
    for number in 0..<count where number % 1_000 != 7 {
      let hash = KeyIndex.hash(key(number).span)
      #expect(table.insert(key(number).span, hash: hash, entity(number)) != nil)
    }
    #expect(table.count == count)
    for number in 0..<count { #expect(table.find(key(number)) != nil) }
  }

  @Test(arguments: 0..<8)
  func keysKeepTheirBytesWhileOthersAreAddedAndRemoved(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    var arena = KeyArena()
    var known: [(offset: KeyArena.Offset, key: [UInt8])] = []
    for step in 0..<4_000 {
      if Int.random(in: 0..<2_000, using: &generator) > known.count {
        let maximum = [20, 100, 600, KeyArena.longestKey].randomElement(using: &generator)!
        let length =
          maximum > 600 && step % 50 > 0 ? 512 : Int.random(in: 0...maximum, using: &generator)
        let key = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* step) }
        let offset = arena.add(key.span)
        known.append((try #require(offset), key))
      } else {
        known.swapAt(Int.random(in: known.indices, using: &generator), known.count - 1)
        arena.remove(known.removeLast().offset)
      }
    }
    for (offset, key) in known { #expect(Array(arena[offset]) == key) }
  }

  @Test func theRoomOfRemovedKeysIsReusedForShorterOnesOfAnyLength() {
    var arena = KeyArena(limit: 256 << 10)
    var maximumBefore = 0
    for length in stride(from: 512, through: 2, by: -7) {
      let key = [UInt8](repeating: 7, count: length)
      var places: [KeyArena.Offset] = []
      while let offset = arena.add(key.span) { places.append(offset) }
      #expect(places.count >= maximumBefore)
      maximumBefore = places.count
      for offset in places { arena.remove(offset) }
    }
    #expect(maximumBefore > 5_000)
  }

  @Test func withoutRoomForItsKeySTARTIsRefusedAndChangesNothing() throws {
    var settings = EngineSettings()
    settings.limits.keyMemory = 1_024
    let desk = Desk(settings)
    let long = { (number: Int) in "\(number)" + String(repeating: "x", count: 200) }
    for number in 0..<4 { try desk.start(long(number)) }
    let error = EngineError.limit(name: "max-key-memory", value: 1_024)
    #expect(throws: error) { try desk.start(long(4)) }
    #expect(throws: error) { try desk.start(long(4), uid: 1_001) }
    #expect(desk.engine.entityCount == 4)
    let ofUsers = [1_000, 1_001].map { desk.engine.entityCount(of: $0) }
    #expect(ofUsers == [4, 0])
    #expect(desk.engine.armedCount == 4)
    #expect(desk.get(long(4)) == nil)
    try desk.start(long(0), uid: 1_001)
    try desk.cancel(long(1))
    #expect(try desk.start(long(4)).decision == .accepted)
    for number in [0, 2, 3, 4] { try desk.cancel(long(number)) }
    // Once empty, the memory of keys starts over with the same limit.
    for number in 0..<4 { try desk.start(long(number)) }
    #expect(throws: error) { try desk.start(long(4)) }
  }

  @Test func aPlaceBeyondWhatTheIndexCanHoldCannotBeRestored() {
    let now = Moment(boot: .zero, wall: .zero)
    var state = TimerEntity.blank("t".utf8.span)
    var writer = StateWriter(offset: 0)
    TimerKind.write("t".utf8.span, &state, to: &writer)
    for (offset, isRefused) in [(0, false), (1 << 27 - 2, true), (UInt32.max, true)] {
      var entities = StoredEntities()
      entities.append(.timer, offset, writer.bytes.span)
      #expect(Engine(at: now).restore(entities, offset: 0, at: now).isEmpty != isRefused)
    }
  }

  @Test func anEntityRefSurvivesTheRoundTripThroughATimersPayload() {
    for kind in EntityKind.allCases {
      for index in [0, 1, 0x8000_0000, .max] as [UInt32] {
        let reference = EntityRef(kind, index)
        #expect(EntityRef(payload: reference.payload) == reference)
      }
    }
  }

  @Test func aCountdownsRecordTakes36BytesRareFieldsAreStoredBesideIt() {
    #expect(MemoryLayout<CountdownRecord>.stride == 36)
    #expect(MemoryLayout<SendRecord.Send>.stride == 40)
  }

  @Test
  func otherGuardsDoNotMakeTheRecordsOfRateLimitsLarger() {
    #expect(MemoryLayout<GuardEntity<Throttle>>.stride <= 104)
  }

  @Test func countdownsShareOneCopyOfEqualTermsAsLongAsOneOfThemHasIt() throws {
    var table = TermsTable()
    func terms(_ number: Int) throws -> Terms {
      Terms(
        plan: try #require(Countdown.Plan(count: 60, every: .seconds(Int64(number % 2) + 1))),
        uid: UInt32(number % 3), titles: Titles.of(counting: [UInt8(number % 5)], ready: nil))
    }
    var taken: [TermsTable.ID] = []
    for number in 0..<300 { taken.append(table.take(try terms(number))) }
    #expect(table.count == 30)
    for number in 0..<300 { #expect(try table[taken[number]] == terms(number)) }
    for number in 0..<299 { table.release(taken[number]) }
    #expect(table.count == 1)
    #expect(try table[taken[299]] == terms(299))
    table.release(taken[299])
    #expect(table.count == 0)
    let again = table.take(try terms(7))
    #expect(try table[again] == terms(7))
  }
}

extension CountdownStore {
  fileprivate func insert(
    _ key: Span<UInt8>, hash: KeyIndex.Hash, _ entity: CountdownEntity
  ) -> UInt32? {
    insert(
      key, hash: hash, entity.machine, entity.generation, uid: entity.uid, titles: entity.titles,
      entity.extras)
  }
}
