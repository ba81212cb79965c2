import TimerWheel

/// Countdowns by key and by index, like an `EntityTable`, but packed: there may be tens of millions
/// of them. Each takes 36 bytes, besides its key, its slot in the index, and rare extras. Beside
/// them is what only countdowns have.
///
/// Frequently used fields are read alone and changed in place; a whole countdown is copied out as a
/// `CountdownEntity` and written back.
final class CountdownStore: EntityStore {
  private var memory = GrowingArray<CountdownRecord>(capacity: 64)
  private var records: Cells<CountdownRecord>
  private var slots = Slots()
  private var keys: KeyArena
  private var index = KeyIndex()
  private var terms = TermsTable()
  private var extras = Shards<UInt32, CountdownExtras>()
  /// The keys that are looked up next, and after that.
  private var prepared = (next: PreparedKey(), later: PreparedKey())
  /// The highest count since memory was last given back.
  private var peak = 0
  /// A peak up to this count takes too little memory to be worth giving back.
  private static let shrinkThreshold = 1 << 16
  /// After a peak of so many or fewer, an empty table keeps its memory.
  private static let resetThreshold = 64
  /// The number of records whose memory is given back at once: whole pages.
  private static let region = 1 << 14

  /// The plan of a START without COUNT and EVERY.
  private(set) var defaultPlan: Countdown.Plan
  /// The record of the plain countdown that was stored last, reused for the next one.
  var recordTemplate = RecordTemplate()
  /// The policies that are tried out; nil until one of them has something to decide.
  var shadow: Shadow?

  init(_ settings: EngineSettings = EngineSettings()) {
    keys = KeyArena(limit: settings.limits.keyMemory)
    records = memory.cells
    defaultPlan = settings.defaultPlan
  }

  func reload(_ settings: EngineSettings, at now: Moment) {
    defaultPlan = settings.defaultPlan
    if settings.hasShadows { shadow?.reload(settings, at: now) } else { shadow = nil }
  }

  var count: Int { index.count }
  var keyBytes: Int { keys.bytes }
  /// One more than the highest index ever used.
  var indexEnd: Int { slots.end }

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
    index.find(hash: hash) { slot in
      let record = records[Int(slot)]
      return record.hash == hash && keys.with(record.key) { $0.hasSameBytes(as: key) }
    }
  }

  /// Returns the hash of a key; that of a prepared key is not computed again.
  func hash(_ key: Span<UInt8>) -> KeyIndex.Hash {
    if prepared.next.isOf(key) { return prepared.next.hash }
    return prepared.later.isOf(key) ? prepared.later.hash : KeyIndex.hash(key)
  }

  /// Prefetches what `find` needs for the key after the next: memory takes longer than a command.
  func prepare(key: Span<UInt8>) {
    guard let new = PreparedKey(key) else { return }
    prepared = (prepared.later, new)
    index.prefetch(new.hash)
  }

  func prepare(record: Span<UInt8>) {
    if let key = EntityRecord.key(of: record) { prepare(key: record.extracting(key)) }
  }

  func find(_ key: [UInt8]) -> UInt32? { find(key.span) }

  func key(_ index: UInt32) -> [UInt8] { withKey(index) { Array($0) } }

  /// Calls `body` with a key; `body` must not add or remove keys.
  @inline(__always)
  func withKey<R>(_ index: UInt32, _ body: (Span<UInt8>) -> R) -> R {
    keys.with(record(index).key, body)
  }

  func generation(_ index: UInt32) -> Generation { record(index).generation }

  /// Returns whether the countdown exists, and has neither titles nor extras.
  func isPlain(_ index: UInt32) -> Bool {
    contains(index) && !records[Int(index)].flags.contains(.hasExtras)
      && !terms.hasTitles(records[Int(index)].terms)
  }

  private func extras(_ index: UInt32) -> CountdownExtras? {
    record(index).flags.contains(.hasExtras) ? extras[index] : nil
  }

  func owner(_ index: UInt32) -> Owner { extras(index)?.owner ?? .none }
  func forEachOwner(_ index: UInt32, _ body: (Owner) -> Void) { body(owner(index)) }

  /// Returns whether there are sends on record, which outlive the owner.
  func hasSends(_ index: UInt32) -> Bool { sending(index)?.record.last != nil }

  /// Returns the policy and the sends under it; nil if there never was a policy.
  func sending(_ index: UInt32) -> Sending? { extras(index)?.sending }
  func tokens(_ index: UInt32) -> Tokens? { extras(index)?.tokens }

  func uid(_ index: UInt32) -> UInt32 { terms.uid(record(index).terms) }

  func machine(_ index: UInt32) -> Countdown {
    let record = record(index)
    return record.machine(terms.plan(record.terms))
  }

  /// Replaces the machine by a changed copy, whose plan must be the same.
  func update(_ index: UInt32, _ machine: Countdown) {
    precondition(machine.plan == terms.plan(record(index).terms), "a new plan is new terms")
    records[Int(index)].update(machine)
  }

  func titles(_ index: UInt32) -> Titles? { terms.titles(record(index).terms) }

  /// - Parameter key: whether to include the key.
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
        self.terms.release(old.terms)
      }
      records[Int(index)] = new
      if newValue.extras != nil || old.flags.contains(.hasExtras) {
        extras[index] = newValue.extras
      }
    }
  }

  /// The wheel's timer of each countdown; nil for one without.
  var timers: Timers { Timers(records: records) }

  struct Timers {
    let records: Cells<CountdownRecord>

    subscript(index: UInt32) -> UInt32? {
      get { records[Int(index)].timer }
      nonmutating set { records[Int(index)].arm(newValue) }
    }
  }

  func state(_ index: UInt32) -> CountdownEntity? { contains(index) ? self[index] : nil }

  // MARK: Changing

  /// Inserts a countdown with a new key. Returns nil if there is no room for the key. O(1).
  func insert(
    _ key: Span<UInt8>, hash: KeyIndex.Hash, _ machine: Countdown, _ generation: Generation,
    uid: UInt32, titles: Titles? = nil, _ extras: CountdownExtras? = nil
  ) -> UInt32? {
    guard let cell = keys.add(key) else { return nil }
    let slot = slots.take()
    let terms = terms.take(Terms(plan: machine.plan, uid: uid, titles: titles))
    fill(slot, CountdownRecord(machine, generation, cell, hash, terms), extras)
    return slot
  }

  var freeIndex: UInt32 { slots.peek() }

  /// Inserts a countdown with a new key at an index, which must be free. Returns false if there is
  /// no room for the key. O(1).
  func insert(
    _ key: Span<UInt8>, _ entity: CountdownEntity, at slot: UInt32
  ) -> Bool {
    guard let cell = keys.add(key) else { return false }
    slots.take(slot)
    let record = CountdownRecord(
      entity.machine, entity.generation, cell, hash(key), terms.take(entity.terms))
    fill(slot, record, entity.extras)
    return true
  }

  @inline(__always)
  private func fill(
    _ slot: UInt32, _ record: CountdownRecord, _ extras: CountdownExtras?
  ) {
    if slots.end > memory.capacity {
      memory.grow(atLeast: slots.end)
      records = memory.cells
    }
    records[Int(slot)] = record
    if let extras {
      records[Int(slot)].setHasExtras(true)
      self.extras[slot] = extras
    }
    // A split reads nothing but the records, so the processor fetches them in parallel.
    index.insert(slot, hash: record.hash) { [records] in records[Int($0)].hash }
  }

  /// O(1).
  func remove(_ old: UInt32) {
    let record = record(old)
    index.remove(old, hash: record.hash)
    keys.remove(record.key)
    terms.release(record.terms)
    if record.flags.contains(.hasExtras) { extras[old] = nil }
    records[Int(old)] = CountdownRecord()
    slots.release(old)
    startOverIfEmpty()
  }

  /// Gives back the memory of a peak once few countdowns are left. Keys are compacted and the index
  /// is rebuilt; records stay in place. O(peak / 64) after a peak, otherwise O(1).
  func releaseUnusedMemory() {
    peak = max(peak, count)
    guard peak > Self.shrinkThreshold, count < peak / 64 else { return }
    peak = count
    var keys = KeyArena(limit: keys.limit)
    var index = KeyIndex()
    slots.forEachTaken { slot in
      let record = records[Int(slot)]
      guard let key = keys.add(self.keys[record.key]) else {
        preconditionFailure("what had room has room again")
      }
      records[Int(slot)].key = key
      index.insert(slot, hash: record.hash) { [records] in records[Int($0)].hash }
    }
    swap(&self.keys, &keys)
    swap(&self.index, &index)
    slots.forEachFreeRegion(of: Self.region) { memory.returnToSystem($0) }
  }

  private func startOverIfEmpty() {
    guard count == 0 else { return }
    // Gives back the memory of a peak, and lets cursors start over.
    if indexEnd > Self.resetThreshold {
      memory = GrowingArray(capacity: 64)
      records = memory.cells
      slots = Slots()
      keys = KeyArena(limit: keys.limit)
      index = KeyIndex()
      terms = TermsTable()
      extras = Shards()
      prepared = (PreparedKey(), PreparedKey())
      peak = 0
    } else {
      keys.startOver()
      slots.startOver()
    }
  }
}

/// A short key, with its hash.
private struct PreparedKey {
  private var low: UInt64 = 0
  private var high: UInt64 = 0
  private var count = 0
  private(set) var hash: KeyIndex.Hash = 0

  init() {}

  /// Returns nil unless the key has 8 to 16 bytes.
  init?(_ key: Span<UInt8>) {
    guard key.count >= 8, key.count <= 16 else { return nil }
    (low, high) = Self.words(key)
    count = key.count
    hash = KeyIndex.hash(key)
  }

  func isOf(_ key: Span<UInt8>) -> Bool {
    key.count == count && count > 0 && (low, high) == Self.words(key)
  }

  /// Returns the first and the last eight bytes.
  private static func words(_ key: Span<UInt8>) -> (UInt64, UInt64) {
    (key.word(at: 0), key.word(at: key.count &- 8))
  }
}

extension Engine {
  var shadow: Shadow? { stores.countdowns.shadow }
}
