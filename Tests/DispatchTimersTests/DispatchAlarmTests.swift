import Dispatch
import DispatchTimers
import Foundation
import SeededRandom
import Testing

@Suite struct DispatchAlarmTests {
  private let queue = DispatchQueue(label: "alarm")

  @Test(arguments: SeededGenerator.seeds)
  func anAlarmFiresOnceForEachDeadlineNeverBeforeItsClockHasReachedIt(seed: UInt64) async throws {
    var generator = SeededGenerator(seed: seed)
    for clock in [AlarmClock.boot, .wall] {
      let firedAt = Log<UInt64>()
      let alarm = DispatchAlarm(clock: clock, queue: queue)
      alarm.setHandler { firedAt.append(clock.now) }
      for round in 1...40 {
        let deadline = clock.now + UInt64.random(in: 0...6_000, using: &generator)
        alarm.arm(at: deadline)
        try await eventually { firedAt.all.count == round }
        let last = try #require(firedAt.all.last)
        #expect(last >= deadline)
        #expect(alarm.deadline == nil)
      }
    }
  }

  /// go-24595, tokio-3185: a boot alarm runs on in suspend (a timerfd of CLOCK_BOOTTIME)
  @Test func runsOnInSuspend() async {
    // In a process of its own, because libdispatch has one timerfd per clock for all timers.
    await #expect(processExitsWith: .success) {
      let alarm = DispatchAlarm(clock: .boot, queue: DispatchQueue(label: "alarm"))
      alarm.setHandler {}
      alarm.arm(at: AlarmClock.boot.deadline(after: .seconds(3_000)))
      try await eventually {
        // What the kernel says of an open timerfd: its clock, and the time left.
        openTimers().contains {
          $0.contains("clockid: \(CLOCK_BOOTTIME)\n") && $0.contains("it_value: (29")
        }
      }
      alarm.disarm()
    }
  }

  @Test func aWallAlarmFiresAtOnceWhenTheClockIsSetPastIt() async {
    // The kernel looks at such a timer anew whenever the clock is set (timerfd_create(2)).
    await #expect(processExitsWith: .success) {
      let alarm = DispatchAlarm(clock: .wall, queue: DispatchQueue(label: "alarm"))
      alarm.setHandler {}
      alarm.arm(at: AlarmClock.wall.deadline(after: .seconds(3_000)))
      try await eventually {
        openTimers().contains {
          $0.contains("clockid: \(CLOCK_REALTIME)\n") && $0.contains("settime flags: 01\n")
            && $0.contains("it_value: (29")
        }
      }
      alarm.disarm()
    }
  }

  @Test func theSystemsTimerIsSetOnlyForAChange() {
    let alarm = DispatchAlarm(clock: .boot, queue: queue)
    alarm.setHandler {}
    let start = AlarmClock.boot.deadline(after: .seconds(3_600))
    alarm.arm(at: start)
    alarm.arm(at: start)
    #expect(alarm.timesSet == 1)
    alarm.arm(noLaterThan: start + 1)
    alarm.arm(noLaterThan: start)
    #expect(alarm.timesSet == 1 && alarm.deadline == start)
    alarm.arm(noLaterThan: start - 1)
    #expect(alarm.timesSet == 2 && alarm.deadline == start - 1)
    alarm.arm(at: start + 9)
    #expect(alarm.timesSet == 3 && alarm.deadline == start + 9)
    alarm.disarm()
    #expect(alarm.deadline == nil)
    alarm.arm(noLaterThan: start + 10)
    #expect(alarm.timesSet == 4 && alarm.deadline == start + 10)
  }

  @Test func aDeadlineInThePastFiresAtOnceAlsoWhenArmedFromWithinTheHandler() async throws {
    let fired = Counter()
    let alarm = DispatchAlarm(clock: .boot, queue: queue)
    alarm.setHandler { [weak alarm] in
      fired.add()
      if fired.value < 20 { alarm?.arm(at: UInt64(fired.value)) }
    }
    alarm.arm(at: 0)
    try await eventually { fired.value == 20 }
  }

  /// node-4541, tokio-5536: a deadline beyond the range of a dispatch time is not due
  @Test func reachesFar() async throws {
    for (clock, base) in zip([AlarmClock.boot, .wall], bothClocks) {
      let fired = Counter()
      let alarm = DispatchAlarm(clock: clock, queue: queue)
      alarm.setHandler { fired.add() }
      for deadline: UInt64 in [.max, .max - 1, 1 << 63, 1 << 62, (1 << 62) / 1_000 + 1] {
        alarm.arm(at: deadline)
        try await passTime(clock: base)
        #expect(fired.value == 0 && alarm.deadline == deadline)
      }
      // Nor did it wake up for nothing in between.
      #expect(alarm.timesSet == 5)
    }
  }

  @Test func anAlarmDisarmedWhileItsEventWasOnTheWayDoesNotFire() async throws {
    let fired = Counter()
    let alarm = DispatchAlarm(clock: .boot, queue: queue)
    alarm.setHandler { fired.add() }
    let roadblock = try await Roadblock(on: queue)
    alarm.arm(at: BootClock.now)
    try await passTime(clock: .continuous)
    alarm.disarm()
    roadblock.open()
    try await passTime(clock: .continuous)
    queue.sync {}
    #expect(fired.value == 0)
  }

  @Test func anAlarmMovedWhileItsEventWasOnTheWayFiresAtTheNewDeadline() async throws {
    let firedAt = Log<UInt64>()
    let alarm = DispatchAlarm(clock: .boot, queue: queue)
    alarm.setHandler { firedAt.append(BootClock.now) }
    let roadblock = try await Roadblock(on: queue)
    alarm.arm(at: BootClock.now)
    try await passTime(clock: .continuous)
    let deadline = AlarmClock.boot.deadline(after: .milliseconds(100))
    alarm.arm(at: deadline)
    roadblock.open()
    try await eventually { !firedAt.all.isEmpty }
    #expect(firedAt.all.allSatisfy { $0 >= deadline })
  }

  @Test func anAlarmCanBeReleasedInAnyStateAndReleasesItsHandler() async throws {
    let living = Counter()
    let fired = Counter()
    func make() -> DispatchAlarm {
      let witness = Witness(living)
      let alarm = DispatchAlarm(clock: .boot, queue: queue)
      alarm.setHandler { withExtendedLifetime(witness) { fired.add() } }
      return alarm
    }
    for _ in 0..<50 {
      _ = DispatchAlarm(clock: .boot, queue: queue)
      _ = make()
      make().arm(at: AlarmClock.boot.deadline(after: .seconds(3_600)))
      make().arm(at: 0)
      let disarmed = make()
      disarmed.arm(at: AlarmClock.boot.deadline(after: .milliseconds(1)))
      disarmed.disarm()
    }
    let last = make()
    last.arm(at: 0)
    try await eventually { last.deadline == nil }
    withExtendedLifetime(last) {}
    _ = consume last
    try await eventually { living.value == 0 }
  }

  @Test func anAlarmCanBeReleasedFromWithinItsHandler() async throws {
    let living = Counter()
    let place = Box<DispatchAlarm>()
    let witness = Witness(living)
    let alarm = DispatchAlarm(clock: .boot, queue: queue)
    alarm.setHandler { [witness] in withExtendedLifetime(witness) { _ = place.take() } }
    place.put(alarm)
    alarm.arm(at: 0)
    try await eventually { place.value == nil }
    _ = consume alarm
    _ = consume witness
    try await eventually { living.value == 0 }
  }

  @Test func aWallClockBeyond2116OutOfTheRangeOfADispatchTimeIsPolled() {
    let latest: UInt64 = (1 << 62 - 1) / 1_000
    let day: UInt64 = 86_400_000_000
    #expect(WallSetting(latest - 1, at: 0) == .moment(nanoseconds: (latest - 1) * 1_000))
    // Before that time: it wakes up then, and looks again.
    #expect(WallSetting(latest + day, at: latest - 1) == .moment(nanoseconds: 1 << 62 - 1))
    #expect(WallSetting(.max, at: 0) == .moment(nanoseconds: 1 << 62 - 1))
    for now in [latest + 1, latest + 365 * day] {
      #expect(WallSetting(now + 5, at: now) == .look(afterMicroseconds: 5))
      #expect(
        WallSetting(now + day, at: now) == .look(afterMicroseconds: WallSetting.maximumMicroseconds)
      )
      #expect(
        WallSetting(.max, at: now) == .look(afterMicroseconds: WallSetting.maximumMicroseconds))
      // What is due fires at once.
      #expect(WallSetting(now, at: now) == .moment(nanoseconds: 1 << 62 - 1))
    }
  }
}

/// What the kernel tells of each timerfd of this process.
private func openTimers() -> [String] {
  let directory = "/proc/self/fdinfo"
  let descriptors = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
  return descriptors.compactMap { descriptor in
    let info = try? String(contentsOfFile: "\(directory)/\(descriptor)", encoding: .utf8)
    return info?.contains("clockid:") == true ? info : nil
  }
}
