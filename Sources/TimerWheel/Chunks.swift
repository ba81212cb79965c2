import Memory

/// The entries of armed timers, (deadline, record), in chunks of 64. Chunks form lists, one for
/// each slot and each run.
///
/// An entry's position is its chunk and its place in the chunk, in one number. Walking a list reads
/// whole chunks of memory, which makes cascading and expiring cheap; a list of single timers would
/// wait for memory at each step. Deadlines and records are in separate arrays without gaps.
/// Removing an entry clears a bit and does not touch the entry.
struct Chunks: ~Copyable {
  static let none = UInt32.max
  static let size = 64
  /// The number of chunks whose deadlines share a huge page.
  private static let region = 1 << 12

  struct Header {
    /// The earliest deadline, valid while `earliestOffset` is the offset of a live entry.
    var earliest: UInt64 = .max
    var next = Chunks.none
    var previous = Chunks.none
    /// The list that the chunk is in.
    var list: UInt16 = 0
    /// The offset in the chunk where the earliest deadline is, or was. `unknown` until the first
    /// search, and while the chunk is being filled.
    var earliestOffset = Header.unknown

    static let unknown = UInt8.max
  }

  struct List {
    /// The last deadline while deadlines were added in ascending order, else `.max`. An ascending
    /// list needs no search and no sorting.
    var last: UInt64 = 0
    var head = Chunks.none
    /// The position of the next entry; a multiple of 64 if the last chunk has no room.
    var end: UInt32 = 0

    @inline(__always)
    var isEmpty: Bool { head == Chunks.none }
    @inline(__always)
    var isAscending: Bool { last != .max }
    @inline(__always)
    var tail: UInt32 { isEmpty ? Chunks.none : (end &- 1) &>> 6 }
    @inline(__always)
    var hasRoom: Bool { end & 63 != 0 }
  }

  private(set) var deadlines: Cells<UInt64>
  /// The record of each entry.
  private(set) var records: Cells<UInt32>
  /// One word per chunk, with a bit for each entry that exists. Cancelling reads nothing else of a
  /// chunk, so these words are separate from the headers and stay in the cache.
  private(set) var live: Cells<UInt64>
  private(set) var headers: Cells<Header>
  let lists: Cells<List>
  let scratch = SortScratch()
  private var deadlineArray = GrowingArray<UInt64>(capacity: 64 * Chunks.size)
  private var recordArray = GrowingArray<UInt32>(capacity: 64 * Chunks.size)
  private var liveArray = GrowingArray<UInt64>(capacity: 64)
  private var headerArray = GrowingArray<Header>(capacity: 64)
  private var free = FreeIndices()

  init(lists count: Int) {
    deadlines = deadlineArray.cells
    records = recordArray.cells
    live = liveArray.cells
    headers = headerArray.cells
    lists = .allocate(count)
    lists.fill(0..<count, with: List())
    free.extend(to: headerArray.capacity)
  }

  deinit {
    lists.deallocate()
    scratch.deallocate()
  }

  var allocatedBytes: Int {
    deadlineArray.allocatedBytes + recordArray.allocatedBytes + liveArray.allocatedBytes
      + headerArray.allocatedBytes + free.allocatedBytes + lists.count * MemoryLayout<List>.stride
  }

  // MARK: Entries

  /// Appends an entry to a list that has room, and returns its position. O(1).
  @inline(__always)
  func append(_ deadline: UInt64, _ record: UInt32, to list: Int) -> UInt32 {
    let position = lists[list].end
    lists[list].end = position &+ 1
    lists[list].last = deadline >= lists[list].last ? deadline : .max
    deadlines[Int(position)] = deadline
    records[Int(position)] = record
    live[Int(position &>> 6)] |= 1 &<< UInt64(position & 63)
    return position
  }

  /// Returns whether an entry is the only one in its chunk.
  @inline(__always)
  func isAlone(_ position: UInt32) -> Bool {
    live[Int(position &>> 6)] & ~(1 &<< UInt64(position & 63)) == 0
  }

  /// Removes an entry. Returns whether the caller must drop its chunk, which is empty.
  ///
  /// Reads neither the deadline, nor the record, nor the chunk's header: each would be one more
  /// wait for memory.
  @inline(__always)
  func remove(_ position: UInt32) -> Bool {
    let left = live[Int(position &>> 6)] & ~(1 &<< UInt64(position & 63))
    live[Int(position &>> 6)] = left
    return left == 0
  }

  /// Returns the position of the first entry in a chunk that is not empty.
  @inline(__always)
  func firstPosition(in chunk: UInt32) -> UInt32 {
    let offset = live[Int(chunk)].trailingZeroBitCount
    return chunk &<< 6 | UInt32(truncatingIfNeeded: offset)
  }

  // MARK: Lists

  /// Returns the number of timers in a list; nil if they do not fit in one chunk. O(1): each chunk
  /// in a list has at least one timer.
  func countIfOneChunk(_ list: Int) -> Int? {
    var count = 0
    var chunk = lists[list].head
    while chunk != Chunks.none {
      count += live[Int(chunk)].nonzeroBitCount
      if count > Chunks.size { return nil }
      chunk = headers[Int(chunk)].next
    }
    return count
  }

  /// Returns the earliest deadline in a list that is not empty, and its position.
  ///
  /// O(1) in an ascending list. In any other list, reads the header of each chunk, and searches the
  /// chunks whose earliest entry is unknown or was removed.
  func earliest(in list: Int) -> (deadline: UInt64, position: UInt32) {
    let first = firstPosition(in: lists[list].head)
    if lists[list].isAscending { return (deadlines[Int(first)], first) }
    var earliest = UInt64.max
    var position = first
    var chunk = lists[list].head
    while chunk != Chunks.none {
      let offset = UInt64(headers[Int(chunk)].earliestOffset)
      if offset > 63 || live[Int(chunk)] & 1 &<< offset == 0 { findEarliest(in: chunk) }
      let header = headers[Int(chunk)]
      if header.earliest < earliest {
        earliest = header.earliest
        position = chunk &<< 6 | UInt32(header.earliestOffset)
      }
      chunk = header.next
    }
    if lists[list].hasRoom { headers[Int(lists[list].tail)].earliestOffset = Header.unknown }
    return (earliest, position)
  }

  private func findEarliest(in chunk: UInt32) {
    let start = Int(chunk &<< 6)
    var left = live[Int(chunk)]
    var earliest = UInt64.max
    var offset = left.trailingZeroBitCount
    while left != 0 {
      let candidate = left.trailingZeroBitCount
      left &= left &- 1
      if deadlines[start | candidate] < earliest {
        earliest = deadlines[start | candidate]
        offset = candidate
      }
    }
    headers[Int(chunk)].earliest = earliest
    headers[Int(chunk)].earliestOffset = UInt8(truncatingIfNeeded: offset)
  }

  /// Returns the value that `map` has for all deadlines in the first chunk of a list; nil if its
  /// values differ. `map` must be non-decreasing.
  @inline(__always)
  func common(_ map: (UInt64) -> Int, ofHead list: Int) -> Int? {
    let chunk = lists[list].head
    let start = Int(chunk &<< 6)
    var left = live[Int(chunk)]
    let first = map(deadlines[start | left.trailingZeroBitCount])
    guard map(deadlines[start | (63 &- left.leadingZeroBitCount)]) == first else { return nil }
    if lists[list].isAscending { return first }
    while left != 0 {
      if map(deadlines[start | left.trailingZeroBitCount]) != first { return nil }
      left &= left &- 1
    }
    return first
  }

  // MARK: Chunks

  /// Appends an empty chunk to a list. The caller must then add an entry.
  @inline(never)
  mutating func appendChunk(to list: Int) {
    let chunk = free.take() ?? takeNew()
    live[Int(chunk)] = 0
    headers[Int(chunk)] = Header(list: UInt16(truncatingIfNeeded: list))
    link(chunk, to: list)
    lists[list].end = chunk &<< 6
    fetch(chunk)
  }

  /// Writes to each cache line of a chunk: the processor fetches all lines at once, instead of
  /// waiting for each line when its first entry is written.
  private func fetch(_ chunk: UInt32) {
    let first = Int(chunk &<< 6)
    for offset in stride(from: 0, to: Chunks.size, by: 8) { deadlines[first &+ offset] = 0 }
    for offset in stride(from: 0, to: Chunks.size, by: 16) { records[first &+ offset] = 0 }
  }

  /// Moves the first chunk of a list to the end of another list, which adds no entries to that
  /// chunk. O(1).
  mutating func moveHead(of list: Int, to other: Int) {
    let chunk = lists[list].head
    let live = live[Int(chunk)]
    let first = deadlines[Int(chunk &<< 6) | live.trailingZeroBitCount]
    let last = deadlines[Int(chunk &<< 6) | (63 &- live.leadingZeroBitCount)]
    let isAscending =
      lists[list].isAscending && (lists[other].isEmpty || first >= lists[other].last)
    unlink(chunk)
    headers[Int(chunk)].list = UInt16(truncatingIfNeeded: other)
    link(chunk, to: other)
    lists[other].end = (chunk &+ 1) &<< 6
    lists[other].last = isAscending ? last : .max
  }

  private func link(_ chunk: UInt32, to list: Int) {
    let tail = lists[list].tail
    headers[Int(chunk)].previous = tail
    headers[Int(chunk)].next = Chunks.none
    if tail == Chunks.none {
      lists[list] = List(head: chunk)
    } else {
      headers[Int(tail)].next = chunk
    }
  }

  /// Removes a chunk from its list. Returns whether the list is empty now.
  @discardableResult
  private func unlink(_ chunk: UInt32) -> Bool {
    let header = headers[Int(chunk)]
    let list = Int(header.list)
    if header.previous == Chunks.none {
      lists[list].head = header.next
    } else {
      headers[Int(header.previous)].next = header.next
    }
    if header.next == Chunks.none {
      lists[list].end = header.previous == Chunks.none ? 0 : (header.previous &+ 1) &<< 6
    } else {
      headers[Int(header.next)].previous = header.previous
    }
    return lists[list].isEmpty
  }

  /// Frees a chunk without entries. Returns its list if the list is empty now.
  mutating func dropChunk(_ chunk: UInt32) -> Int? {
    let isEmpty = unlink(chunk)
    free.insert(chunk)
    return isEmpty ? Int(headers[Int(chunk)].list) : nil
  }

  /// Moves the first chunk of a list to another list, which is empty, and frees the rest. Returns
  /// the moved chunk.
  mutating func moveOnlyHead(of list: Int, to other: Int) -> UInt32 {
    let head = lists[list].head
    var chunk = headers[Int(head)].next
    while chunk != Chunks.none {
      let next = headers[Int(chunk)].next
      free.insert(chunk)
      chunk = next
    }
    lists[list] = List()
    headers[Int(head)].list = UInt16(truncatingIfNeeded: other)
    headers[Int(head)].next = Chunks.none
    lists[other] = List(head: head, end: (head &+ 1) &<< 6)
    return head
  }

  /// Releases the memory of regions that hold no timer.
  func releaseUnusedMemory() {
    free.forEachFreeRegion(of: Chunks.region) { chunks in
      let entries = chunks.lowerBound * Chunks.size..<chunks.upperBound * Chunks.size
      deadlineArray.returnToSystem(entries)
      recordArray.returnToSystem(entries)
    }
  }

  /// Starts over with little memory once no timer is left.
  mutating func startOver() {
    liveArray.startOver(64)
    headerArray.startOver(64)
    deadlineArray.startOver(64 * Chunks.size)
    recordArray.startOver(64 * Chunks.size)
    free.removeAll()
    free.extend(to: headerArray.capacity)
    readBases()
  }

  /// Creates more chunks when none is free, and takes one.
  @inline(never)
  private mutating func takeNew() -> UInt32 {
    precondition(headerArray.capacity < 1 << 26, "a wheel holds at most 2³² timers")
    headerArray.grow(atLeast: headerArray.capacity + 1)
    liveArray.grow(atLeast: headerArray.capacity)
    deadlineArray.grow(atLeast: headerArray.capacity * Chunks.size)
    recordArray.grow(atLeast: headerArray.capacity * Chunks.size)
    free.extend(to: headerArray.capacity)
    readBases()
    return free.take()!
  }

  /// Copies the cells of the arrays, which saves an indirection on each access.
  private mutating func readBases() {
    deadlines = deadlineArray.cells
    records = recordArray.cells
    live = liveArray.cells
    headers = headerArray.cells
  }
}
