import Memory

extension Chunks {
  /// Turns a list of at most 64 timers into a run: one chunk, sorted by deadline. Timers with equal
  /// deadlines keep their order.
  ///
  /// - Parameters:
  ///   - start: earlier deadlines count as this one.
  ///   - bits: all deadlines are less than 2^bits ticks after `start`; 6 to 58.
  mutating func sort(
    _ list: Int, into run: Int, from start: UInt64, bits: UInt64, _ slab: inout Records
  ) {
    let scratch = scratch
    let count = collect(list, from: start)
    let isAscending = lists[list].isAscending
    if !isAscending {
      if count > 12 { scratch.spread(count, bits: bits) }
      scratch.insertionSort(count)
    }

    let chunk = moveOnlyHead(of: list, to: run)
    let first = Int(chunk &<< 6)
    for position in 0..<count {
      let source = isAscending ? position : Int(scratch.keys[position] & 63)
      let record = scratch.records[source]
      deadlines[first &+ position] = scratch.deadlines[source]
      records[first &+ position] = record
      slab.all[Int(record)].position = UInt32(truncatingIfNeeded: first &+ position)
    }
    live[Int(chunk)] = ~0 &>> UInt64(64 &- count)
    headers[Int(chunk)] = Header(list: UInt16(run))
  }

  /// Copies the entries of a list and returns their number. A key holds the time and, in the low
  /// six bits, the entry's position.
  private func collect(_ list: Int, from start: UInt64) -> Int {
    var count = 0
    var chunk = lists[list].head
    while chunk != Chunks.none {
      var left = live[Int(chunk)]
      while left != 0 {
        let position = Int(chunk &<< 6) | left.trailingZeroBitCount
        left &= left &- 1
        let deadline = deadlines[position]
        scratch.deadlines[count] = deadline
        scratch.records[count] = records[position]
        scratch.keys[count] = (max(deadline, start) &- start) &<< 6 | UInt64(count)
        count &+= 1
      }
      chunk = headers[Int(chunk)].next
    }
    return count
  }
}

/// Scratch memory for sorting one chunk.
struct SortScratch {
  let keys: Cells<UInt64>
  private let other: Cells<UInt64>
  let deadlines: Cells<UInt64>
  let records: Cells<UInt32>
  private let starts: Cells<UInt8>

  init() {
    keys = .allocate(Chunks.size)
    other = .allocate(Chunks.size)
    deadlines = .allocate(Chunks.size)
    records = .allocate(Chunks.size)
    starts = .allocate(Chunks.size + 1)
  }

  func deallocate() {
    keys.deallocate()
    other.deallocate()
    deadlines.deallocate()
    records.deallocate()
    starts.deallocate()
  }

  /// Puts keys into 64 buckets by their highest six bits, which nearly sorts spread-out times.
  func spread(_ count: Int, bits: UInt64) {
    // A key has `bits` bits of time above six bits of position; the shift keeps its highest six.
    let shift = bits
    starts.fill(0..<Chunks.size + 1, with: 0)
    for index in 0..<count { starts[Int(keys[index] &>> shift) &+ 1] &+= 1 }
    for bucket in 1..<Chunks.size { starts[bucket] &+= starts[bucket &- 1] }
    for index in 0..<count {
      let bucket = Int(keys[index] &>> shift)
      other[Int(starts[bucket])] = keys[index]
      starts[bucket] &+= 1
    }
    keys.copy(other, count: count)
  }

  /// Sorts the keys. No two are equal: at least their positions differ.
  func insertionSort(_ count: Int) {
    var index = 1
    while index < count {
      let key = keys[index]
      var position = index
      while position > 0, keys[position &- 1] > key {
        keys[position] = keys[position &- 1]
        position &-= 1
      }
      keys[position] = key
      index &+= 1
    }
  }
}
