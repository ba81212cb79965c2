import Dispatch
import DispatchTimers
import Foundation
import SeededRandom
import Testing

/// Everything happens at once, on many threads. TIMERS= sets how many timers take part.
@Suite struct BadLuckTests {
  private static let timerCount = Int(ProcessInfo.processInfo.environment["TIMERS"] ?? "") ?? 20_000

  @Test(arguments: bothClocks)
  func timersCancelledFromEightThreadsWhileTheyFireAreEachCalledOrCancelled(clock: TimeBase) {
    let timers = TimerQueue()
    let count = Self.timerCount
    let called = Counter()
    let twice = Counter()
    let cancelled = Counter()
    let flags = Flags(count)
    // They are due while the threads below run.
    let handles = (0..<count).map { index in
      timers.schedule(after: .microseconds(index % 1_000), clock: clock) {
        if flags.raise(index) { twice.add() }
        called.add()
      }
    }
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      for index in stride(from: thread, to: count, by: 8) where handles[index].cancel() {
        if flags.raise(index) { twice.add() }
        cancelled.add()
      }
    }
    timers.queue.sync {}
    #expect(called.value + cancelled.value == count)
    #expect(twice.value == 0)
    #expect(timers.count == 0 && handles.allSatisfy { !$0.isPending })
  }

  @Test(arguments: SeededGenerator.seeds)
  func handlesReleasedAndRescheduledFromEightThreadsNeverDisturbOthers(seed: UInt64) async throws {
    let timers = TimerQueue()
    let wrong = Counter()
    let living = Counter()
    DispatchQueue.concurrentPerform(iterations: 8) { thread in
      var random = SeededGenerator(seed: seed &+ UInt64(thread))
      var handles: [TimerHandle] = []
      for index in 0..<Self.timerCount / 8 {
        let scheduled = BootClock.now
        let witness = Witness(living)
        let interval: Duration? = index % 3 == 0 ? .microseconds(20) : nil
        let handle = timers.schedule(after: .microseconds(50), repeating: interval) {
          (firing: Firing) in
          // A moved timer is due from the time of the move on.
          withExtendedLifetime(witness) { if firing.deadline < scheduled { wrong.add() } }
        }
        switch Int.random(in: 0..<4, using: &random) {
        case 0: handle.detach()
        case 1: handle.reschedule(after: .microseconds(Int.random(in: 0...99, using: &random)))
        case 2: handles.append(handle)
        default: handle.cancel()
        }
        if index % 3 == 0 { handle.cancel() }
        if handles.count > 100 { handles.removeAll() }
      }
    }
    try await eventually { timers.count == 0 && living.value == 0 }
    #expect(wrong.value == 0)
  }

  @Test(arguments: bothClocks)
  func targetsReleasedOnOtherThreadsWhileTheyAreCalledAreReleasedOnce(clock: TimeBase) async throws
  {
    let timers = TimerQueue()
    let living = Counter()
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      for _ in 0..<500 {
        let target = Witness(living)
        for interval in [nil, Duration.microseconds(3)] {
          timers.schedule(after: .zero, repeating: interval, clock: clock, target: target) { _ in }
            .detach()
        }
      }
    }
    try await eventually { living.value == 0 && timers.count == 0 }
  }

  @Test func aHandleThatIsDiscardedAtOnceIsReported() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let timers = TimerQueue()
      let kept = timers.schedule(after: .seconds(60)) {}
      timers.schedule(after: .seconds(60)) {}.detach()
      kept.cancel()
      for _ in 0..<100 { _ = timers.schedule(after: .seconds(60)) {} }
    }
    let error = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(error.components(separatedBy: "its handle was released").count == 2, "\(error)")
  }

  @Test func keptCancelledAndDetachedHandlesAreNotReported() async {
    let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
      let timers = TimerQueue()
      let kept = timers.schedule(after: .seconds(60)) {}
      timers.schedule(after: .seconds(60)) {}.detach()
      kept.cancel()
    }
    let error = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
    #expect(!error.contains("its handle was released"))
  }
}

/// A flag for each timer.
private final class Flags: Sendable {
  private let flags: [Counter]

  init(_ count: Int) { flags = (0..<count).map { _ in Counter() } }

  /// Returns whether it was raised before.
  func raise(_ index: Int) -> Bool {
    flags[index].add()
    return flags[index].value > 1
  }
}
