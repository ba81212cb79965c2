extension TimerWheel {
  /// Traps if the wheel is inconsistent. O(timers); for tests and simulations.
  package func checkInvariants() {
    var seen = 0
    for list in 0..<(Slot.count + Slot.levels) { seen += check(list) }
    precondition(seen == count, "the count is wrong: \(seen) seen, \(count)")
    precondition(isNearLateEnough, "a deadline that is not near would be placed wrongly")
  }

  /// Checks a list and returns the number of its timers.
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
    var previous = Chunks.none
    var chunk = chunks.lists[list].head
    while chunk != Chunks.none {
      let header = chunks.headers[Int(chunk)]
      precondition(header.previous == previous, "a list of chunks is broken")
      precondition(Int(header.list) == list, "a chunk does not know its list")
      let live = chunks.live[Int(chunk)]
      precondition(live != 0, "a chunk without timers was kept")
      for offset in UInt32(0)..<64 where live & 1 << UInt64(offset) != 0 {
        let position = chunk << 6 | offset
        precondition(
          header.next != Chunks.none || position < chunks.lists[list].end
            || !chunks.lists[list].hasRoom, "an entry lies behind the end of its list")
        let deadline = chunks.deadlines[Int(position)]
        let record = records.all[Int(chunks.records[Int(position)])]
        precondition(record.generation != 0, "a free record has an entry")
        precondition(record.position == position, "a record does not know its entry")
        precondition(
          header.earliestOffset > 63 || live & 1 << UInt64(header.earliestOffset) == 0
            || header.earliest <= deadline, "a chunk's earliest is wrong")
        if run >= 0 {
          precondition(deadline >= last || last <= elapsed, "a run is out of order")
        } else {
          precondition(
            !chunks.lists[list].isAscending || deadline >= last, "a list is not ascending")
          checkHome(of: deadline, Slot(id: list))
        }
        last = deadline
      }
      inList += live.nonzeroBitCount
      previous = chunk
      chunk = header.next
    }
    precondition(chunks.lists[list].tail == previous, "a list of chunks has no end")
    return inList
  }

  private func checkHome(of deadline: Tick, _ slot: Slot) {
    let home = Slot(for: max(deadline, elapsed), from: elapsed)
    precondition(slot == home || slot == self.slot(for: deadline), "a timer is in the wrong slot")
  }
}
