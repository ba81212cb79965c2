extension TimerWheel {
  /// Stops the program if the wheel contradicts itself. O(timers); for tests and simulations.
  public func checkInvariants() {
    var seen = 0
    for list in 0..<(Slot.count + Slot.levels) { seen += check(list) }
    precondition(seen == count, "the count is wrong: \(seen) seen, \(count)")
  }

  /// The number of timers in a list.
  private func check(_ list: Int) -> Int {
    let run = list - Slot.count
    let isMarked =
      run >= 0
      ? runs & 1 << run != 0
      : occupancy[list / Slot.perLevel] & 1 << (list % Slot.perLevel) != 0
    let isEmpty = chunks.lists[list].isEmpty
    precondition(
      isMarked == !isEmpty || list == cascading?.id, "an occupancy bit is wrong")

    var inList = 0
    var last: UInt64 = 0
    var earliest = UInt64.max
    var previous = Chunks.none
    var chunk = chunks.lists[list].head
    while chunk != Chunks.none {
      let header = chunks.headers[Int(chunk)]
      precondition(header.previous == previous, "a list of chunks is broken")
      precondition(Int(header.list) == list, "a chunk does not know its list")
      var live = 0
      for offset in 0..<UInt32(header.used) {
        let position = chunk << 6 | offset
        let index = chunks.records[Int(position)]
        guard offset >= header.first, index != Records.none else { continue }
        live += 1
        let deadline = chunks.deadlines[Int(position)]
        let record = records.base[Int(index)]
        precondition(record.generation != 0, "a free record has an entry")
        precondition(record.position == position, "a record does not know its entry")
        earliest = min(earliest, deadline)
        if run >= 0 {
          precondition(deadline >= last || last <= elapsed, "a run is out of order")
          last = deadline
        } else {
          checkHome(of: deadline, Slot(id: list))
        }
      }
      precondition(live == Int(header.live) && live > 0, "a chunk's count is wrong")
      inList += live
      previous = chunk
      chunk = header.next
    }
    precondition(chunks.lists[list].tail == previous, "a list of chunks has no end")
    if !isEmpty {
      precondition(chunks.lists[list].earliest <= earliest, "a list's earliest is wrong")
    }
    return inList
  }

  private func checkHome(of deadline: Tick, _ slot: Slot) {
    let home = Slot(for: max(deadline, elapsed), from: elapsed)
    precondition(slot == home || slot == self.slot(for: deadline), "a timer is in the wrong slot")
  }
}
