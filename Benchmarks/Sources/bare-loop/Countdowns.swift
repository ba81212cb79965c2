import Glibc
import TimerWheel

/// All countdowns. Each lasts a minute and cannot be restarted while it runs.
struct Countdowns: ~Copyable {
  private static let minute: Int64 = 60_000_000

  private var table = KeyTable()
  private var wheel = TimerWheel(startingAt: UInt64(Self.microseconds(CLOCK_BOOTTIME)))
  /// The time of the current batch, in microseconds since boot.
  private var now: Int64 = 0
  /// The newest generation. It starts at the wall-clock time, so generations rise across restarts.
  private var lastGeneration = Self.microseconds(CLOCK_REALTIME)

  private static func microseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
  }

  /// Returns the milliseconds until the next deadline, or -1 if there is none.
  mutating func millisecondsToSleep() -> CInt {
    guard let next = wheel.nextDeadline else { return -1 }
    return CInt(truncatingIfNeeded: (max(Int64(next) - now, 0) + 999) / 1_000)
  }

  mutating func beginBatch() { now = Self.microseconds(CLOCK_BOOTTIME) }

  @inline(__always)
  mutating func execute(_ request: Request, _ log: inout Log, _ reply: inout Bytes) {
    guard let key = request.key else { return append("*0\r\n", to: &reply) }
    let index = table.place(key.start, key.length)
    let record = table.records + index
    let isStarted = record.pointee.deadline <= now
    if isStarted {
      lastGeneration += 1
      record.pointee.generation = lastGeneration
      record.pointee.deadline = now + Self.minute
      record.pointee.timer = wheel.schedule(
        deadline: UInt64(record.pointee.deadline), payload: UInt64(index))
      log.add(record, key.start, key.length)
    }
    append(isStarted ? "*3\r\n:1\r\n" : "*3\r\n:0\r\n", to: &reply)
    append(record.pointee.generation, to: &reply)
    append((record.pointee.deadline - now + 999) / 1_000, to: &reply)
  }

  /// Expires due countdowns, a few per batch, so that clients do not wait for a burst.
  mutating func expireDue() {
    var budget = 64
    while let due = wheel.advance(to: UInt64(now), budget: &budget) {
      table.records[Int(due.payload)].deadline = 0
    }
  }
}

/// The state of a key.
struct Record {
  var generation: Int64
  /// In microseconds since boot; 0 once the timer has fired.
  var deadline: Int64
  var timer: TimerWheel.Token
  /// The offset of the key's bytes.
  var key: UInt32
  var keyLength: UInt32
}

/// Maps keys to records with open addressing in one array, so a new key costs one memory access.
/// Records and keys are stored in order of arrival and never removed.
struct KeyTable: ~Copyable {
  let records: UnsafeMutablePointer<Record>
  private var count = 0
  private let keys: Bytes
  private var keysEnd = 0
  /// Each slot has the upper half of a key's hash above the record's index plus one, or 0 if it is
  /// free. The number of slots is a power of two.
  private var slots: UnsafeMutablePointer<UInt64>
  private var mask: Int

  init() {
    records = Self.reserve(1 << 32)
    keys = Self.reserve(1 << 32)
    mask = (1 << 16) - 1
    slots = Self.reserve((mask + 1) * 8)
  }

  /// Reserves address space. The kernel supplies zeroed pages on first access.
  private static func reserve<Element>(_ bytes: Int) -> UnsafeMutablePointer<Element> {
    let start = mmap(
      nil, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
    guard let start, start != MAP_FAILED else { fail("memory") }
    return start.bindMemory(to: Element.self, capacity: bytes / MemoryLayout<Element>.stride)
  }

  /// Returns the index of the key's record; a new key gets a record with deadline 0.
  @inline(__always)
  mutating func place(_ key: Bytes, _ length: Int) -> Int {
    let hash = Self.hash(key, length)
    var slot = Int(truncatingIfNeeded: hash) & mask
    while slots[slot] != 0 {
      if slots[slot] >> 32 == hash >> 32 {
        let index = Int(slots[slot] & 0xFFFF_FFFF) - 1
        if Int(records[index].keyLength) == length,
          memcmp(keys + Int(records[index].key), key, length) == 0
        {
          return index
        }
      }
      slot = (slot + 1) & mask
    }
    slots[slot] = hash & ~0xFFFF_FFFF | UInt64(count + 1)
    memcpy(keys + keysEnd, key, length)
    records[count].key = UInt32(keysEnd)
    records[count].keyLength = UInt32(length)
    keysEnd += length
    count += 1
    if count * 4 > mask * 3 { grow() }
    return count - 1
  }

  /// Multiplies eight bytes at a time and XORs the halves of the product, like wyhash. An attacker
  /// can make keys collide, so the daemon needs a keyed hash.
  @inline(__always)
  private static func hash(_ key: Bytes, _ length: Int) -> UInt64 {
    var hash = 0x2D35_8DCC_AA6C_78A5 ^ UInt64(length)
    var at = 0
    while at < length {
      var word: UInt64 = 0
      memcpy(&word, key + at, min(8, length - at))
      let product = (hash ^ word).multipliedFullWidth(by: 0x8BB8_4B93_962E_ACC9)
      hash = product.high ^ product.low
      at += 8
    }
    return hash
  }

  @inline(never)
  private mutating func grow() {
    let old = slots
    munmap(old, (mask + 1) * 8)
    mask = mask * 2 + 1
    slots = Self.reserve((mask + 1) * 8)
    // Rehashes the keys in memory order, because a slot has only half of the hash.
    for index in 0..<count {
      let hash = Self.hash(keys + Int(records[index].key), Int(records[index].keyLength))
      var slot = Int(truncatingIfNeeded: hash) & mask
      while slots[slot] != 0 { slot = (slot + 1) & mask }
      slots[slot] = hash & ~0xFFFF_FFFF | UInt64(index + 1)
    }
  }
}
