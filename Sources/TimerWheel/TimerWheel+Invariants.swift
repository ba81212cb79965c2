extension TimerWheel {
  /// Stops the program if the wheel contradicts itself. O(timers); for tests and simulations.
  public func checkInvariants() {
    var seen = 0
    for level in 0..<Slot.levels {
      for position in 0..<Slot.perLevel {
        let slot = Slot(level: level, position: position)
        var inSlot = 0
        var previous = RecordSlab.none
        slots.forEach(in: slot, records) { index in
          inSlot += 1
          let record = records[index]
          precondition(record.generation & 1 == 1, "a free record is linked")
          precondition(Int(record.slot) == slot.offset, "a record does not know its slot")
          precondition(record.previous == previous, "a list is broken")
          let home = Slot(for: max(record.deadline, elapsed), from: elapsed)
          precondition(
            slot == home || slot == self.slot(for: record.deadline), "a timer is in the wrong slot")
          previous = index
        }
        precondition(slots.isOccupied(slot) == (inSlot > 0), "an occupancy bit is wrong")
        seen += inSlot
      }
    }
    precondition(seen == count, "the count is wrong")
  }
}
