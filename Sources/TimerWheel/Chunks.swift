/// Entries of armed timers, (deadline, record), in chunks of 64; chunks form lists, one for each
/// slot and each run.
///
/// An entry's position is its chunk and its place there, in one number. A list is walked in the
/// order of memory, chunk by chunk: that is what makes cascading and expiring cheap, where a list
/// of single timers waits for memory at each step. Deadlines and records lie in arrays of their
/// own, without gaps.
struct Chunks: ~Copyable {
  static let none = UInt32.max
  static let size = 64

  struct Header {
    /// The earliest deadline in the chunk, while it is known where it is.
    var earliest: UInt64
    var next: UInt32
    var previous: UInt32
    /// Which list the chunk is in.
    var list: UInt16
    /// Entries written so far, cancelled ones included.
    var used: UInt8
    var live: UInt8
    /// Nothing before this is live.
    var first: UInt8
    /// Where in the chunk the earliest deadline is; `unknown` once that has been taken out.
    var earliestOffset: UInt8

    static let unknown = UInt8.max
  }

  struct List {
    /// Bounds of the deadlines in the list; `earliest` is exact while it is known where it is.
    var earliest: UInt64 = .max
    var latest: UInt64 = 0
    var head = Chunks.none
    var tail = Chunks.none
    /// Where the earliest deadline is; `none` once that has been taken out.
    var earliestPosition = Chunks.none

    @inline(__always)
    var isEmpty: Bool { head == Chunks.none }
  }

  private(set) var deadlines: UnsafeMutablePointer<UInt64>
  /// The record of each entry; `Records.none` for one that was cancelled.
  private(set) var records: UnsafeMutablePointer<UInt32>
  private(set) var headers: UnsafeMutablePointer<Header>
  let lists: UnsafeMutablePointer<List>
  let scratch = SortScratch()
  private let listCount: Int
  private var deadlineArray = GrowingArray<UInt64>(capacity: 4 * Chunks.size)
  private var recordArray = GrowingArray<UInt32>(capacity: 4 * Chunks.size)
  private var headerArray = GrowingArray<Header>(capacity: 4)
  private var used = 0
  private var firstFree = Chunks.none

  init(lists count: Int) {
    deadlines = deadlineArray.base
    records = recordArray.base
    headers = headerArray.base
    listCount = count
    lists = .allocate(capacity: count)
    lists.initialize(repeating: List(), count: count)
  }

  deinit {
    lists.deallocate()
    scratch.deallocate()
  }

  var allocatedBytes: Int {
    deadlineArray.allocatedBytes + recordArray.allocatedBytes + headerArray.allocatedBytes
      + listCount * MemoryLayout<List>.stride
  }

  // MARK: Entries

  /// Whether the last chunk of a list can take one more entry.
  @inline(__always)
  func hasRoom(in list: Int) -> Bool {
    let chunk = lists[list].tail
    return chunk != Chunks.none && headers[Int(chunk)].used != 64
  }

  /// Adds an entry at the end of a list that has room, and returns its position. O(1).
  @inline(__always)
  func append(_ deadline: UInt64, _ record: UInt32, to list: Int) -> UInt32 {
    let target = lists + list
    let chunk = target.pointee.tail
    let header = headers + Int(chunk)
    let offset = header.pointee.used
    let position = chunk &<< 6 | UInt32(offset)
    deadlines[Int(position)] = deadline
    records[Int(position)] = record
    header.pointee.used = offset &+ 1
    header.pointee.live &+= 1
    if deadline > target.pointee.latest { target.pointee.latest = deadline }
    if deadline < header.pointee.earliest {
      header.pointee.earliest = deadline
      header.pointee.earliestOffset = offset
      if deadline < target.pointee.earliest {
        target.pointee.earliest = deadline
        target.pointee.earliestPosition = position
      }
    }
    return position
  }

  /// Takes an entry out of its list. Returns whether its chunk has to be dropped now.
  ///
  /// Its deadline is not looked at: that would be one more wait for memory.
  @inline(__always)
  func remove(_ position: UInt32) -> Bool {
    let chunk = position &>> 6
    let header = headers + Int(chunk)
    let list = Int(header.pointee.list)
    records[Int(position)] = Records.none
    header.pointee.live &-= 1
    if header.pointee.earliestOffset == UInt8(truncatingIfNeeded: position & 63) {
      header.pointee.earliestOffset = Header.unknown
      if lists[list].earliestPosition == position { lists[list].earliestPosition = Chunks.none }
    }
    return header.pointee.live == 0
  }

  /// The first live entry of a chunk that has one.
  @inline(__always)
  func firstPosition(in chunk: UInt32) -> UInt32 {
    let header = headers + Int(chunk)
    var offset = header.pointee.first
    while records[Int(chunk &<< 6 | UInt32(offset))] == Records.none { offset &+= 1 }
    header.pointee.first = offset
    return chunk &<< 6 | UInt32(offset)
  }

  // MARK: Lists

  /// How many timers a list has, as far as that fits in one chunk; nil if it does not. O(1): a
  /// chunk in a list has one at least.
  func countIfOneChunk(_ list: Int) -> Int? {
    var count = 0
    var chunk = lists[list].head
    while chunk != Chunks.none {
      count += Int(headers[Int(chunk)].live)
      if count > Chunks.size { return nil }
      chunk = headers[Int(chunk)].next
    }
    return count
  }

  /// The earliest deadline in a list; `.max` if it is empty. O(1) while it is known where it is;
  /// else the chunks of the list are asked, and those searched whose earliest entry was taken out.
  func earliest(in list: Int) -> UInt64 {
    if lists[list].isEmpty { return .max }
    if lists[list].earliestPosition != Chunks.none { return lists[list].earliest }
    var earliest = UInt64.max
    var position = Chunks.none
    var chunk = lists[list].head
    while chunk != Chunks.none {
      let header = headers + Int(chunk)
      if header.pointee.earliestOffset == Header.unknown { findEarliest(in: chunk) }
      if header.pointee.earliest < earliest || position == Chunks.none {
        earliest = header.pointee.earliest
        position = chunk &<< 6 | UInt32(header.pointee.earliestOffset)
      }
      chunk = header.pointee.next
    }
    lists[list].earliest = earliest
    lists[list].earliestPosition = position
    return earliest
  }

  private func findEarliest(in chunk: UInt32) {
    let header = headers + Int(chunk)
    var earliest = UInt64.max
    var offset = Header.unknown
    for candidate in header.pointee.first..<header.pointee.used {
      let position = Int(chunk &<< 6 | UInt32(candidate))
      guard records[position] != Records.none else { continue }
      if offset == Header.unknown || deadlines[position] < earliest {
        earliest = deadlines[position]
        offset = candidate
      }
    }
    header.pointee.earliest = earliest
    header.pointee.earliestOffset = offset
  }

  /// Gives all chunks of `list` to `other`, which is empty. Returns how many there are. O(chunks).
  mutating func move(_ list: Int, to other: Int) -> Int {
    var count = 0
    var chunk = lists[list].head
    while chunk != Chunks.none {
      headers[Int(chunk)].list = UInt16(truncatingIfNeeded: other)
      chunk = headers[Int(chunk)].next
      count += 1
    }
    lists[other] = lists[list]
    lists[list] = List()
    return count
  }

  // MARK: Chunks

  /// Frees the chunks of a list but its first; what they held must be elsewhere by now.
  mutating func keepOnlyHead(of list: Int) {
    var chunk = headers[Int(lists[list].head)].next
    while chunk != Chunks.none {
      let next = headers[Int(chunk)].next
      headers[Int(chunk)].next = firstFree
      firstFree = chunk
      chunk = next
    }
  }

  /// Gives a list a last chunk that is empty. Entries must follow.
  mutating func appendChunk(to list: Int) {
    let chunk: UInt32
    if firstFree != Chunks.none {
      chunk = firstFree
      firstFree = headers[Int(chunk)].next
    } else {
      if used == headerArray.capacity { grow() }
      chunk = UInt32(used)
      used += 1
    }
    let tail = lists[list].tail
    headers[Int(chunk)] = Header(
      earliest: .max, next: Chunks.none, previous: tail,
      list: UInt16(truncatingIfNeeded: list), used: 0, live: 0, first: 0,
      earliestOffset: Header.unknown)
    if tail == Chunks.none {
      lists[list] = List()
      lists[list].head = chunk
    } else {
      headers[Int(tail)].next = chunk
    }
    lists[list].tail = chunk
  }

  /// Unlinks a chunk without live entries. Returns its list if that is empty now.
  mutating func dropChunk(_ chunk: UInt32) -> Int? {
    let header = headers[Int(chunk)]
    let list = Int(header.list)
    if header.previous == Chunks.none {
      lists[list].head = header.next
    } else {
      headers[Int(header.previous)].next = header.next
    }
    if header.next == Chunks.none {
      lists[list].tail = header.previous
    } else {
      headers[Int(header.next)].previous = header.previous
    }
    headers[Int(chunk)].next = firstFree
    firstFree = chunk
    return lists[list].isEmpty ? list : nil
  }

  /// No chunk is in use: gives their memory back, if it is about a megabyte.
  mutating func reset() {
    guard headerArray.capacity > 1 << 10 else { return }
    used = 0
    firstFree = Chunks.none
    headerArray.shrink(to: 64)
    deadlineArray.shrink(to: 64 * Chunks.size)
    recordArray.shrink(to: 64 * Chunks.size)
    readBases()
  }

  @inline(never)
  private mutating func grow() {
    headerArray.grow(atLeast: used + 1)
    deadlineArray.grow(atLeast: headerArray.capacity * Chunks.size)
    recordArray.grow(atLeast: headerArray.capacity * Chunks.size)
    readBases()
  }

  /// They are kept beside the arrays: one step less to each entry.
  private mutating func readBases() {
    deadlines = deadlineArray.base
    records = recordArray.base
    headers = headerArray.base
  }
}
