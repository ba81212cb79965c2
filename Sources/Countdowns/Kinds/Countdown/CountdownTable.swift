import TimerWheel

/// Countdowns by key and by index, as `EntityTable` has other kinds, but packed: there may be tens
/// of millions of them. 36 bytes for each, and beside them its key, its place in the index, and
/// what only some have.
///
/// What is asked most can be had alone, and is changed in place; all of a countdown is taken out as
/// a `CountdownEntity` and put back.
struct CountdownTable: ~Copyable {
  private let inPlace = InPlace()
  private var memory = GrowingArray<CountdownRecord>(capacity: 64)
  private var records: Cells<CountdownRecord>
  private var places = Places()
  private var keys: KeyArena
  private var index = KeyIndex()
  private var terms = TermsTable()
  private var extras: [UInt32: CountdownExtras] = [:]
  /// What is looked for next, and what after that.
  private var prepared = (next: PreparedKey(), later: PreparedKey())
  /// The most there were since memory was given back last.
  private var most = 0
  /// As few do not take enough memory to be worth it.
  private static let few = 1 << 16
  /// How many records are given back at once: whole pages.
  private static let region = 1 << 14

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
  func find(_ key: Span<UInt8>) -> UInt32? { find(key, hash: hash(key)) }

  func find(_ key: Span<UInt8>, hash: KeyIndex.Hash) -> UInt32? {
    index.find(hash: hash) { place in
      let record = records[Int(place)]
      return record.hash == hash && keys[record.key].hasSameBytes(as: key)
    }
  }

  /// Of a key; known already of one that was prepared.
  func hash(_ key: Span<UInt8>) -> KeyIndex.Hash {
    if prepared.next.isOf(key) { return prepared.next.hash }
    return prepared.later.isOf(key) ? prepared.later.hash : KeyIndex.hash(key)
  }

  /// Begins to fetch what `find` needs for a key that is looked for after the next one: memory
  /// takes longer than a command.
  mutating func prepare(_ key: Span<UInt8>) {
    guard let new = PreparedKey(key) else { return }
    prepared = (prepared.later, new)
    index.prefetch(new.hash)
  }

  func find(_ key: [UInt8]) -> UInt32? { find(key.span) }

  func key(_ index: UInt32) -> [UInt8] { withKey(index) { Array($0) } }

  /// Lends a key. No key may be added or removed meanwhile.
  @inline(__always)
  func withKey<R>(_ index: UInt32, _ body: (Span<UInt8>) -> R) -> R {
    body(keys[record(index).key])
  }

  func generation(_ index: UInt32) -> Generation { record(index).generation }

  /// Whether there is such a countdown, and nothing beside its record but its plan and its user.
  func isPlain(_ index: UInt32) -> Bool {
    contains(index) && !records[Int(index)].flags.contains(.hasExtras)
      && !terms.hasTitles(records[Int(index)].terms)
  }

  private func extras(_ index: UInt32) -> CountdownExtras? {
    record(index).flags.contains(.hasExtras) ? extras[index] : nil
  }

  func owner(_ index: UInt32) -> Owner { extras(index)?.owner ?? .none }

  /// Whether a send that is remembered outlives the owner.
  func hasSends(_ index: UInt32) -> Bool { sending(index)?.record.sends.isEmpty == false }

  /// What was sent under a policy; nil if it never had one.
  func sending(_ index: UInt32) -> Sending? { extras(index)?.sending }

  func uid(_ index: UInt32) -> UInt32 { terms.uid(record(index).terms) }

  func machine(_ index: UInt32) -> Countdown {
    let record = record(index)
    return record.machine(terms.plan(record.terms))
  }

  /// Puts back a machine that was taken out; its plan is the same.
  mutating func update(_ index: UInt32, _ machine: Countdown) {
    precondition(machine.plan == terms.plan(record(index).terms), "a new plan is new terms")
    records[Int(index)].update(machine)
  }

  func titles(_ index: UInt32) -> Titles? { terms.titles(record(index).terms) }

  /// - Parameter key: whether the view is to have its key.
  func view(
    _ index: UInt32, key: Bool = true, code: Generation?, retryAt: Instant?, at now: Moment
  ) -> CountdownView {
    let record = record(index)
    return CountdownView(
      record.machine(terms.plan(record.terms)), record.generation,
      key: key ? Array(keys[record.key]) : [], titles: terms.titles(record.terms),
      extras(index), code: code, retryAt: retryAt, at: now)
  }

  subscript(index: UInt32) -> CountdownEntity {
    get {
      let record = record(index)
      let terms = terms[record.terms]
      return CountdownEntity(
        machine: record.machine(terms.plan), generation: record.generation, uid: terms.uid,
        titles: terms.titles, extras: extras(index))
    }
    set {
      let old = record(index)
      var new = old
      new.update(newValue.machine)
      new.generation = newValue.generation
      new.setHasExtras(newValue.extras != nil)
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

  /// The wheel's timer of each; nil if it has none.
  var timers: Timers { Timers(records: records) }

  struct Timers {
    let records: Cells<CountdownRecord>

    subscript(index: UInt32) -> UInt32? {
      get { records[Int(index)].timer }
      nonmutating set { records[Int(index)].arm(newValue) }
    }
  }

  func entity(at index: Int) -> CountdownEntity? {
    contains(UInt32(clamping: index)) ? self[UInt32(index)] : nil
  }

  // MARK: Changing

  /// Nil if there is no room for its key, which must not be in the table yet. O(1).
  mutating func insert(
    _ key: Span<UInt8>, hash: KeyIndex.Hash, _ machine: Countdown, _ generation: Generation,
    uid: UInt32, titles: Titles? = nil, _ extras: CountdownExtras? = nil
  ) -> UInt32? {
    guard let cell = keys.add(key) else { return nil }
    let place = places.take()
    let terms = terms.take(Terms(plan: machine.plan, uid: uid, titles: titles))
    fill(place, CountdownRecord(machine, generation, cell, hash, terms), extras)
    return place
  }

  /// An index that is free.
  var freeIndex: UInt32 { mutating get { places.peek() } }

  /// Puts a countdown at an index that is free, as it had it before. Its key must not be in the
  /// table; false if there is no room for it. O(1).
  mutating func insert(_ key: [UInt8], _ entity: CountdownEntity, at place: UInt32) -> Bool {
    guard let cell = keys.add(key.span) else { return false }
    places.take(place)
    let record = CountdownRecord(
      entity.machine, entity.generation, cell, hash(key.span), terms.take(entity.terms))
    fill(place, record, entity.extras)
    return true
  }

  @inline(__always)
  private mutating func fill(
    _ place: UInt32, _ record: CountdownRecord, _ extras: CountdownExtras?
  ) {
    if places.end > memory.capacity {
      memory.grow(atLeast: places.end)
      records = memory.cells
    }
    records[Int(place)] = record
    if let extras {
      records[Int(place)].setHasExtras(true)
      self.extras[place] = extras
    }
    // A segment that splits looks at records only, so their memory is fetched at once.
    index.insert(place, hash: record.hash) { [records] in records[Int($0)].hash }
  }

  /// O(1).
  mutating func remove(_ old: UInt32) {
    let record = record(old)
    index.remove(old, hash: record.hash)
    keys.remove(record.key)
    terms.giveBack(record.terms)
    if record.flags.contains(.hasExtras) { extras[old] = nil }
    records[Int(old)] = CountdownRecord()
    places.giveBack(old)
    startOverIfEmpty()
  }

  /// Gives back what a peak took, once hardly any countdowns are left. Keys move together, and the
  /// index begins again; records stay where they are. O(peak / 64), and little where there is no
  /// peak to get over.
  mutating func releaseUnusedMemory() {
    most = max(most, count)
    guard most > Self.few, count < most / 64 else { return }
    most = count
    var keys = KeyArena(limit: keys.limit)
    var index = KeyIndex()
    places.forEachTaken { place in
      let record = records[Int(place)]
      guard let key = keys.add(self.keys[record.key]) else {
        preconditionFailure("what had room has room again")
      }
      records[Int(place)].key = key
      index.insert(place, hash: record.hash) { [records] in records[Int($0)].hash }
    }
    swap(&self.keys, &keys)
    swap(&self.index, &index)
    places.forEachFreeRegion(of: Self.region) { memory.giveBack($0) }
  }

  private mutating func startOverIfEmpty() {
    // Memory is given back after a peak, and cursors start over.
    if count == 0 { self = CountdownTable(keyMemory: keys.limit) }
  }
}

/// The hash of a short key.
private struct PreparedKey {
  private var low: UInt64 = 0
  private var high: UInt64 = 0
  private var count = 0
  private(set) var hash: KeyIndex.Hash = 0

  init() {}

  /// Nil for a long one.
  init?(_ key: Span<UInt8>) {
    guard key.count >= 8, key.count <= 16 else { return nil }
    (low, high) = Self.words(key)
    count = key.count
    hash = KeyIndex.hash(key)
  }

  func isOf(_ key: Span<UInt8>) -> Bool {
    key.count == count && count > 0 && (low, high) == Self.words(key)
  }

  /// The first and the last eight bytes.
  private static func words(_ key: Span<UInt8>) -> (UInt64, UInt64) {
    (key.word(at: 0), key.word(at: key.count &- 8))
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
  /// The wheel's record. It is the countdown's own for as long as the flag says that it is armed.
  private var alarm: UInt32 = 0
  var terms: TermsTable.ID = 0
  var key: KeyArena.Place = 0
  /// Of the key, so that the index can grow without a look at it.
  private(set) var hash: KeyIndex.Hash = 0
  private var sendsAndFlags: UInt32 = 0

  init() {}

  @inline(__always)
  init(
    _ machine: Countdown, _ generation: Generation, _ key: KeyArena.Place, _ hash: KeyIndex.Hash,
    _ terms: TermsTable.ID
  ) {
    self.key = key
    self.hash = hash
    self.terms = terms
    sendsAndFlags = Flags.isUsed.rawValue
    self.generation = generation
    update(machine)
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
    get { Generation(Int64(bitPattern: UInt64(generationHigh) << 32 | UInt64(generationLow))) }
    set {
      let value = UInt64(bitPattern: newValue.value)
      generationLow = UInt32(truncatingIfNeeded: value)
      generationHigh = UInt32(truncatingIfNeeded: value >> 32)
    }
  }

  mutating func setHasExtras(_ hasExtras: Bool) {
    let others = sendsAndFlags & ~Flags.hasExtras.rawValue
    sendsAndFlags = hasExtras ? others | Flags.hasExtras.rawValue : others
  }

  var timer: UInt32? { flags.contains(.isArmed) ? alarm : nil }

  mutating func arm(_ timer: UInt32?) {
    guard let timer else {
      sendsAndFlags &= ~Flags.isArmed.rawValue
      return
    }
    alarm = timer
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
