import Testing

@testable import CountdownStore

/// Timelines in seconds.
@Suite struct ClockTests {
  private func at(_ boot: Int64, wall: Int64, _ bootID: String = "boot-1") -> StoreClock.Reading {
    StoreClock.Reading(
      bootID: bootID, bootMicroseconds: boot * 1_000_000, wallMicroseconds: wall * 1_000_000)
  }

  /// What is left at `now` of 60 s that began at `start`, with a restart between.
  private func left(
    since start: StoreClock.Reading, noted: StoreClock.Reading? = nil, at now: StoreClock.Reading
  ) -> Int64 {
    var before = StoreClock(continuing: nil, at: start)
    let deadline = before.stored(bootMicroseconds: start.bootMicroseconds + 60_000_000)
    if let noted { before.note(noted) }
    let after = StoreClock(continuing: before.saved, at: now)
    return (after.bootMicroseconds(stored: deadline) - now.bootMicroseconds) / 1_000_000
  }

  /// beanstalkd-62: a restart adds nothing to what is left, however long it takes
  @Test func runsOnInARestart() {
    #expect(left(since: at(100, wall: 5_000), at: at(110, wall: 5_010)) == 50)
  }

  @Test func theWallClockMovesNothingWithinABoot() {
    #expect(left(since: at(100, wall: 5_000), at: at(110, wall: 9_999)) == 50)
    #expect(left(since: at(100, wall: 5_000), at: at(110, wall: 1)) == 50)
  }

  @Test func theWallClockCountsOverAReboot() {
    #expect(left(since: at(100, wall: 5_000), at: at(3, wall: 5_020, "boot-2")) == 40)
    #expect(left(since: at(100, wall: 5_000), at: at(3, wall: 9_000, "boot-2")) == -3_940)
  }

  @Test func aStepBeforeTheRebootIsNoTimePassed() {
    // The clock was an hour slow when the countdown began, and has been set since.
    #expect(
      left(
        since: at(100, wall: 1_400), noted: at(105, wall: 5_005), at: at(3, wall: 5_020, "boot-2"))
        == 40)
  }

  @Test func aWallClockThatFellBackStretchesNothing() {
    // No battery: it is 1970 again. What had passed when it was noted last has passed.
    #expect(
      left(since: at(100, wall: 5_000), noted: at(120, wall: 5_020), at: at(3, wall: 0, "b")) == 40)
  }

  @Test func anotherBootClockIsAnotherBoot() {
    // The same boot, but the clock is behind: a container with a time namespace of its own.
    #expect(left(since: at(100, wall: 5_000), at: at(3, wall: 5_020)) == 40)
  }

  @Test func virtualTimeIsWrittenDownAtEachStep() {
    var clock = StoreClock(continuing: nil, at: at(100, wall: 5_000), isVirtual: true)
    #expect(!clock.isOutdated(at: at(100, wall: 5_000)))
    #expect(clock.isOutdated(at: at(101, wall: 5_001)))
    clock.note(at(101, wall: 5_001))
    #expect(!clock.isOutdated(at: at(101, wall: 5_001)))
  }

  @Test func virtualTimeContinuesWhereTheStateWasLeft() throws {
    let directory = TemporaryDirectory()
    var virtual = options(directory.state)
    (virtual.isTimeVirtual, virtual.continuesClocks) = (true, true)
    try Life(directory, at: at(100, wall: 5_000)).close(at: at(160, wall: 5_060))
    #expect(
      try Store(virtual, at: at(7, wall: 9_000, "boot-2")).clock.reading
        == at(160, wall: 5_060))
    virtual.continuesClocks = false
    #expect(
      try Store(virtual, at: at(7, wall: 9_000, "boot-2")).clock.reading
        == at(7, wall: 9_000, "boot-2"))
  }

  @Test func goesOnOverManyReboots() {
    var clock = StoreClock(continuing: nil, at: at(100, wall: 5_000))
    let deadline = clock.stored(bootMicroseconds: 160_000_000)
    for boot in 1...5 as ClosedRange<Int64> {
      clock = StoreClock(continuing: clock.saved, at: at(7, wall: 5_000 + boot * 10, "b\(boot)"))
    }
    #expect(clock.bootMicroseconds(stored: deadline) == 17_000_000)
  }

  @Test func eachRebootCountsFromTheOneBefore() {
    var clock = StoreClock(continuing: nil, at: at(100, wall: 5_000))
    let deadline = clock.stored(bootMicroseconds: 160_000_000)
    // 10 s away; then the clock is lost, and 20 s later it still is.
    for (boot, wall) in [("b1", 5_010), ("b2", 0), ("b3", 20)] as [(String, Int64)] {
      clock = StoreClock(continuing: clock.saved, at: at(7, wall: wall, boot))
    }
    #expect(clock.bootMicroseconds(stored: deadline) == 37_000_000)
  }

  @Test func clocksAreStoredAfterStepsAndPeriodically() {
    var clock = StoreClock(continuing: nil, at: at(100, wall: 5_000))
    #expect(!clock.isOutdated(at: at(159, wall: 5_059)))
    #expect(clock.isOutdated(at: at(160, wall: 5_060)))
    #expect(clock.isOutdated(at: at(101, wall: 5_000)))
    clock.note(at(101, wall: 5_000))
    #expect(!clock.isOutdated(at: at(102, wall: 5_001)))
  }

  @Test func aStoreKeepsIt() throws {
    let directory = TemporaryDirectory()
    let (offset, deadline) = try {
      let clock = try open(directory, at: at(100, wall: 5_000)).clock
      return (clock.offset, clock.stored(bootMicroseconds: 160_000_000))
    }()
    // The step is written down with whatever is committed next.
    let life = try Life(directory, at: at(100, wall: 5_000))
    life.commit(batch([countdown(0, "a", until: deadline)]), at: at(110, wall: 8_010))
    life.close(at: at(110, wall: 8_010))
    #expect(try open(directory, at: at(120, wall: 1)).clock.offset == offset)
    var later: Store! = try open(directory, at: at(121, wall: 8_021))
    #expect(later.clock.offset == offset)
    later = nil
    var rebooted: Store! = try open(directory, at: at(5, wall: 8_031, "boot-2"))
    #expect(rebooted.clock.bootMicroseconds(stored: deadline) == 34_000_000)
    rebooted = nil
    rebooted = try open(directory, at: at(9, wall: 8_041, "boot-3"))
    #expect(rebooted.clock.bootMicroseconds(stored: deadline) == 28_000_000)
  }

  @Test func aStepThatWasCommittedIsNoTimePassed() throws {
    let directory = TemporaryDirectory()
    let deadline = try open(directory, at: at(100, wall: 1_400)).clock
      .stored(bootMicroseconds: 160_000_000)
    let copy = TemporaryDirectory()
    let life = try Life(directory, at: at(100, wall: 1_400))
    life.commit(batch([countdown(0, "a", until: deadline)]), at: at(105, wall: 5_005))
    try copyState(directory, copy)
    life.close()
    let rebooted = try open(copy, at: at(3, wall: 5_020, "boot-2"))
    #expect(rebooted.clock.bootMicroseconds(stored: deadline) == 43_000_000)
  }

  // MARK: Boots without a name

  private static let unknown = StoreClock.Reading.unknownBoot

  @Test func anUnknownBootIsAnotherBootIfTheClocksSaySo() {
    // A later boot may have run for longer than the one before, 20 s here: that shows nothing.
    let start = at(20, wall: 5_000, Self.unknown)
    #expect(left(since: start, at: at(600, wall: 5_030, Self.unknown)) == 30)
    // No wall clock after the reboot: what is not known stretches nothing by what it fell.
    #expect(left(since: start, at: at(600, wall: 0, Self.unknown)) == 60)
  }

  @Test func anUnknownBootIsTheSameIfBothClocksHaveRunOn() {
    let start = at(20, wall: 5_000, Self.unknown)
    var later = at(30, wall: 5_010, Self.unknown)
    #expect(left(since: start, at: later) == 50)
    // The wall clock is set right a little all the time; it is the boot clock that counts.
    later.wallMicroseconds += 900_000
    #expect(left(since: start, at: later) == 50)
  }

  @Test func aBootWithoutAnIDYetIsComparedByItsClocks() {
    #expect(left(since: at(20, wall: 5_000, Self.unknown), at: at(30, wall: 5_010)) == 50)
    #expect(left(since: at(20, wall: 5_000, Self.unknown), at: at(30, wall: 5_025)) == 35)
  }

  @Test func aBootIDIsTheSameWithDashes() {
    let dashes = at(100, wall: 5_000, "11b1c9c0-7aa5-4f2c-8a4e-2f5e8a9b0c1d")
    #expect(left(since: dashes, at: at(110, wall: 1, "11b1c9c07aa54f2c8a4e2f5e8a9b0c1d")) == 50)
  }

  // MARK: Without a commit

  @Test(arguments: [Durability.process, .power])
  func closingStoresTheClocks(durability: Durability) throws {
    let directory = TemporaryDirectory()
    let deadline = try open(directory, at: at(100, wall: 5_000)).clock
      .stored(bootMicroseconds: 160_000_000)
    // Somebody has set the wall clock by an hour.
    try Life(directory, durability, at: at(100, wall: 5_000)).close(at: at(110, wall: 8_610))
    let rebooted = try open(directory, at: at(5, wall: 8_630, "boot-2"))
    #expect(rebooted.clock.bootMicroseconds(stored: deadline) == 35_000_000)
  }

  @Test func clocksAreStoredThoughNothingElseHasChanged() throws {
    let (directory, copy) = (TemporaryDirectory(), TemporaryDirectory())
    let life = try Life(directory, at: at(100, wall: 5_000))
    life.commit(TestBatch(), at: at(109, wall: 5_009))
    #expect(life.writer.clocksDue == 160_000_000)
    // Somebody has set the wall clock.
    life.commit(TestBatch(), at: at(110, wall: 8_610))
    #expect(life.writer.clocksDue == 170_000_000)
    life.commit(TestBatch(), at: at(120, wall: 8_620))
    #expect(life.writer.clocksDue == 170_000_000)
    try copyState(directory, copy)
    life.close()
    #expect(
      try open(copy, at: at(5, wall: 8_630, "b")).clock.saved.reading.wallMicroseconds
        == 8_630_000_000)
  }
}

extension StoreClock {
  /// Converts from this boot's boot clock to the store clock.
  fileprivate func stored(bootMicroseconds: Int64) -> Int64 { bootMicroseconds + offset }

  /// Converts from the store clock to this boot's boot clock; negative for times before this boot.
  fileprivate func bootMicroseconds(stored: Int64) -> Int64 { stored - offset }
}
