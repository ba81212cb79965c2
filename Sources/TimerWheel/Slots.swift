/// One slot of one level.
struct Slot: Equatable {
  static let levels = 11
  static let bits = 6
  static let perLevel = 64

  let level: Int
  let position: Int

  init(level: Int, position: Int) {
    self.level = level
    self.position = position
  }

  /// The slot of `level` that covers `tick`.
  init(level: Int, containing tick: UInt64) {
    self.level = level
    position = Int((tick &>> UInt64(level &* Slot.bits)) & 63)
  }

  /// Where `deadline` belongs when the time is `elapsed`: on the level of the highest 6-bit digit
  /// in which they differ, so that every lower digit is still ahead.
  init(for deadline: UInt64, from elapsed: UInt64) {
    let highest = 63 &- (deadline ^ elapsed | 1).leadingZeroBitCount
    self.init(level: highest / Slot.bits, containing: deadline)
  }

  /// Where the slot lies in the tables.
  var offset: Int { level &* Slot.perLevel &+ position }

  /// The first tick of the slot, in the round of its level that `elapsed` is in.
  func start(near elapsed: UInt64) -> UInt64 {
    let shift = UInt64(level &* Slot.bits)
    let above = shift &+ UInt64(Slot.bits)
    let round = above >= 64 ? 0 : (elapsed &>> above) &<< above
    return round | UInt64(position) &<< shift
  }

  /// Whether `tick` lies in the slot, in the round of its level that `elapsed` is in.
  func covers(_ tick: UInt64, near elapsed: UInt64) -> Bool {
    let shift = UInt64(level &* Slot.bits)
    return tick &>> shift == start(near: elapsed) &>> shift
  }
}

/// The lists of all slots, first in first out, and a bit for each slot that has any timer.
struct SlotTable: ~Copyable {
  private struct Ends {
    var head = RecordSlab.none
    var tail = RecordSlab.none
  }

  private let ends: UnsafeMutablePointer<Ends>
  private let occupancy: UnsafeMutablePointer<UInt64>

  init() {
    let slots = Slot.levels * Slot.perLevel
    ends = .allocate(capacity: slots)
    ends.initialize(repeating: Ends(), count: slots)
    occupancy = .allocate(capacity: Slot.levels)
    occupancy.initialize(repeating: 0, count: Slot.levels)
  }

  deinit {
    ends.deallocate()
    occupancy.deallocate()
  }

  func first(of slot: Slot) -> UInt32? {
    let head = ends[slot.offset].head
    return head == RecordSlab.none ? nil : head
  }

  func isOccupied(_ slot: Slot) -> Bool {
    occupancy[slot.level] & (1 &<< UInt64(slot.position)) != 0
  }

  /// The occupied slot that time enters first on its way on from `elapsed`. The slots that
  /// `elapsed` is in are not looked at: above level 0 they are empty or being cascaded.
  func firstOccupied(after elapsed: UInt64) -> Slot? {
    for level in 0..<Slot.levels {
      let position = Slot(level: level, containing: elapsed).position
      // In two steps, because a shift by 64 in one go would be by 0.
      let ahead = occupancy[level] & ((~0 &<< UInt64(position)) &<< 1)
      if ahead != 0 { return Slot(level: level, position: ahead.trailingZeroBitCount) }
    }
    return nil
  }

  mutating func append(_ index: UInt32, to slot: Slot, in records: inout RecordSlab) {
    let tail = ends[slot.offset].tail
    records[index].slot = UInt16(slot.offset)
    records[index].previous = tail
    records[index].next = RecordSlab.none
    if tail == RecordSlab.none {
      ends[slot.offset].head = index
      occupancy[slot.level] |= 1 &<< UInt64(slot.position)
    } else {
      records[tail].next = index
    }
    ends[slot.offset].tail = index
  }

  mutating func remove(_ index: UInt32, in records: inout RecordSlab) {
    let record = records[index]
    let offset = Int(record.slot)
    if record.previous == RecordSlab.none {
      ends[offset].head = record.next
    } else {
      records[record.previous].next = record.next
    }
    if record.next == RecordSlab.none {
      ends[offset].tail = record.previous
    } else {
      records[record.next].previous = record.previous
    }
    if ends[offset].head == RecordSlab.none {
      occupancy[offset / Slot.perLevel] &= ~(1 &<< UInt64(offset % Slot.perLevel))
    }
  }

  func forEach(in slot: Slot, _ records: borrowing RecordSlab, _ body: (UInt32) -> Void) {
    var index = ends[slot.offset].head
    while index != RecordSlab.none {
      body(index)
      index = records[index].next
    }
  }
}
