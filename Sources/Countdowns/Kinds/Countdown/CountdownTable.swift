import TimerWheel

/// Countdowns by key and by index, as `EntityTable` has other kinds, but packed: there may be tens
/// of millions of them. 36 bytes for each, and beside them its key, its place in the index, and
/// what only some have.
///
/// A countdown is taken out as a `CountdownEntity` and put back; what is asked most can be had
/// alone.
struct CountdownTable: ~Copyable {
  private let inPlace = InPlace()
  private var memory = GrowingArray<CountdownRecord>(capacity: 64)
  private var records: Cells<CountdownRecord>
  private var places = Places()
  private var keys: KeyArena
  private var index = KeyIndex()
  private var terms = TermsTable()
  private var extras: [UInt32: CountdownExtras] = [:]

  /// - Parameter keyMemory: bytes that keys may take.
  init(keyMemory: Int = KeyArena.mostBytes) {
    keys = KeyArena(limit: keyMemory)
    records = memory.cells
  }

  var count: Int { index.count }
  /// One more than the highest index ever used.
  var indexEnd: Int { places.end }

  // MARK: Looking

  func contains(_ index: UInt32) -> Bool {
    Int(index) < indexEnd && records[Int(index)].flags.contains(.isUsed)
  }

  private func record(_ index: UInt32) -> CountdownRecord {
    precondition(contains(index), "there is no such countdown")
    return records[Int(index)]
  }

  /// O(1).
  func find(_ key: Span<UInt8>) -> UInt32? { find(key, hash: KeyIndex.hash(key)) }

  func find(_ key: Span<UInt8>, hash: UInt64) -> UInt32? {
    index.find(hash: hash) { keys[records[Int($0)].key].hasSameBytes(as: key) }
  }

  func find(_ key: [UInt8]) -> UInt32? { find(key.span) }

  func key(_ index: UInt32) -> [UInt8] { withKey(index) { Array($0) } }

  /// Lends a key. No key may be added or removed meanwhile.
  @inline(__always)
  func withKey<R>(_ index: UInt32, _ body: (Span<UInt8>) -> R) -> R {
    body(keys[record(index).key])
  }

  func generation(_ index: UInt32) -> Generation { record(index).generation }

  func owner(_ index: UInt32) -> Owner {
    record(index).flags.contains(.hasExtras) ? extras[index]!.owner : .none
  }

  /// Whether a send that is remembered outlives the owner.
  func hasSends(_ index: UInt32) -> Bool {
    record(index).flags.contains(.hasExtras)
      && extras[index]!.sending?.record.sends.isEmpty == false
  }

  func machine(_ index: UInt32) -> Countdown {
    let record = record(index)
    return record.machine(terms.plan(record.terms))
  }

  /// Puts back a machine that was taken out; its plan is the same.
  mutating func update(_ index: UInt32, _ machine: Countdown) {
    precondition(machine.plan == terms.plan(record(index).terms), "a new plan is new terms")
    records[Int(index)].update(machine)
  }

  func titles(_ index: UInt32) -> Titles? { terms[record(index).terms].titles }

  /// What was sent under a policy; nil if it never had one.
  func sending(_ index: UInt32) -> Sending? {
    record(index).flags.contains(.hasExtras) ? extras[index]!.sending : nil
  }

  subscript(index: UInt32) -> CountdownEntity {
    get {
      let record = record(index)
      let terms = terms[record.terms]
      return CountdownEntity(
        machine: record.machine(terms.plan), generation: record.generation, uid: terms.uid,
        titles: terms.titles, alarm: record.armed,
        extras: record.flags.contains(.hasExtras) ? extras[index] : nil)
    }
    set {
      let old = record(index)
      var new = CountdownRecord(newValue, key: old.key, terms: old.terms)
      let terms = newValue.terms
      if self.terms[old.terms] != terms {
        new.terms = self.terms.take(terms)
        self.terms.giveBack(old.terms)
      }
      records[Int(index)] = new
      if newValue.extras != nil || old.flags.contains(.hasExtras) {
        extras[index] = newValue.extras
      }
    }
  }

  /// Its one timer, without taking all of it out.
  var alarms: Alarms { Alarms(records: records) }

  struct Alarms {
    let records: Cells<CountdownRecord>

    subscript(index: UInt32) -> TimerWheel.Token? {
      get { records[Int(index)].armed }
      nonmutating set { records[Int(index)].arm(newValue) }
    }
  }

  func entity(at index: Int) -> CountdownEntity? {
    contains(UInt32(clamping: index)) ? self[UInt32(index)] : nil
  }

  // MARK: Changing

  /// Nil if there is no room for its key, which must not be in the table yet. O(1).
  mutating func insert(
    _ key: Span<UInt8>, hash: UInt64, _ entity: CountdownEntity
  ) -> UInt32? {
    guard let cell = keys.add(key) else { return nil }
    let place = places.take()
    makeRoom()
    fill(place, cell, hash, entity)
    return place
  }

  /// Puts a countdown at an index that is free, as it had it before. Its key must not be in the
  /// table; false if there is no room for it. O(1).
  mutating func insert(_ key: [UInt8], _ entity: CountdownEntity, at place: UInt32) -> Bool {
    guard let cell = keys.add(key.span) else { return false }
    places.take(place)
    makeRoom()
    fill(place, cell, KeyIndex.hash(key.span), entity)
    return true
  }

  @inline(__always)
  private mutating func makeRoom() {
    guard places.end > memory.capacity else { return }
    memory.grow(atLeast: places.end)
    records = memory.cells
  }

  private mutating func fill(
    _ place: UInt32, _ key: KeyArena.Place, _ hash: UInt64, _ entity: CountdownEntity
  ) {
    records[Int(place)] = CountdownRecord(entity, key: key, terms: terms.take(entity.terms))
    if let extras = entity.extras { self.extras[place] = extras }
    let (records, keys) = (records, keys.contents)
    index.insert(place, hash: hash) { indices in
      // Where the keys are, then a look at each, then their hashes: so that the memory they are in
      // is fetched at once, not one after the other.
      let places = indices.map { records[Int($0)].key }
      let bytes = places.reduce(0) { $0 &+ keys[$1].count }
      precondition(bytes <= indices.count * KeyArena.longestKey, "keys have a bounded length")
      return places.map { KeyIndex.hash(keys[$0]) }
    }
  }

  /// O(1).
  @discardableResult
  mutating func remove(_ old: UInt32) -> CountdownEntity {
    let entity = self[old]
    let record = record(old)
    index.remove(old, hash: KeyIndex.hash(keys[record.key]))
    keys.remove(record.key)
    terms.giveBack(record.terms)
    if entity.extras != nil { extras[old] = nil }
    records[Int(old)] = CountdownRecord()
    places.giveBack(old)
    startOverIfEmpty()
    return entity
  }

  private mutating func startOverIfEmpty() {
    // Memory is given back after a peak, and cursors start over.
    if count == 0 { self = CountdownTable(keyMemory: keys.limit) }
  }
}

/// A countdown, packed.
struct CountdownRecord: BitwiseCopyable {
  struct Flags: OptionSet {
    let rawValue: UInt32
    static let isUsed = Flags(rawValue: 1 << 28)
    static let isArmed = Flags(rawValue: 1 << 29)
    static let isRefunded = Flags(rawValue: 1 << 30)
    static let hasExtras = Flags(rawValue: 1 << 31)
  }

  private static let mostSends: UInt32 = 1 << 28 - 1

  // In halves, as eight bytes together would have the record padded.
  private var timeLow: UInt32 = 0
  private var timeHigh: UInt32 = 0
  private var generationLow: UInt32 = 0
  private var generationHigh: UInt32 = 0
  private var alarmLow: UInt32 = 0
  private var alarmHigh: UInt32 = 0
  var terms: TermsTable.ID = 0
  private(set) var key: KeyArena.Place = 0
  private var sendsAndFlags: UInt32 = 0

  init() {}

  init(_ entity: CountdownEntity, key: KeyArena.Place, terms: TermsTable.ID) {
    self.key = key
    self.terms = terms
    let generation = UInt64(bitPattern: entity.generation.value)
    generationLow = UInt32(truncatingIfNeeded: generation)
    generationHigh = UInt32(truncatingIfNeeded: generation >> 32)
    var flags: Flags = .isUsed
    if entity.extras != nil { flags.insert(.hasExtras) }
    sendsAndFlags = flags.rawValue
    update(entity.machine)
    arm(entity.alarm)
  }

  /// The plan is in the terms.
  mutating func update(_ machine: Countdown) {
    // Moments and lengths of time are far below 2⁶¹ µs either way.
    let time: Int64 =
      switch machine.phase {
      case .counting(let until): until.microseconds << 2
      case .paused(let left): left.microseconds << 2 | 1
      case .ready(let since): since.microseconds << 2 | 2
      case .idle(let since): since.microseconds << 2 | 3
      }
    timeLow = UInt32(truncatingIfNeeded: time)
    timeHigh = UInt32(truncatingIfNeeded: time >> 32)
    let isRefunded = machine.isRefunded ? Flags.isRefunded.rawValue : 0
    let others = flags.subtracting(.isRefunded).rawValue
    sendsAndFlags = min(machine.sends, Self.mostSends) | isRefunded | others
  }

  var flags: Flags { Flags(rawValue: sendsAndFlags & ~Self.mostSends) }

  var generation: Generation {
    Generation(Int64(bitPattern: UInt64(generationHigh) << 32 | UInt64(generationLow)))
  }

  var armed: TimerWheel.Token? {
    guard flags.contains(.isArmed) else { return nil }
    return TimerWheel.Token(rawValue: UInt64(alarmHigh) << 32 | UInt64(alarmLow))
  }

  mutating func arm(_ alarm: TimerWheel.Token?) {
    guard let alarm else {
      sendsAndFlags &= ~Flags.isArmed.rawValue
      return
    }
    alarmLow = UInt32(truncatingIfNeeded: alarm.rawValue)
    alarmHigh = UInt32(truncatingIfNeeded: alarm.rawValue >> 32)
    sendsAndFlags |= Flags.isArmed.rawValue
  }

  func machine(_ plan: Countdown.Plan) -> Countdown {
    let time = Int64(bitPattern: UInt64(timeHigh) << 32 | UInt64(timeLow))
    let phase: Countdown.Phase =
      switch time & 3 {
      case 0: .counting(until: Instant(microseconds: time >> 2))
      case 1: .paused(left: Interval(microseconds: time >> 2))
      case 2: .ready(since: Instant(microseconds: time >> 2))
      default: .idle(since: Instant(microseconds: time >> 2))
      }
    return Countdown(
      plan, phase, sends: sendsAndFlags & Self.mostSends,
      isRefunded: flags.contains(.isRefunded))
  }
}
