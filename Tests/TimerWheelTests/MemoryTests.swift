import Glibc
import Testing
import TimerWheel

/// Memory that a peak needed can be returned.
@Suite(.serialized) struct MemoryTests {
  private static let mebibyte = 1 << 20

  /// Returns the resident memory of this process, in bytes.
  private static func residentBytes() throws -> Int {
    let file = try #require(fopen("/proc/self/statm", "r"))
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    try #require(fgets(&line, CInt(line.count), file) != nil)
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    let pages = try #require(Int(text.split(separator: " ")[1]))
    return pages * Int(getpagesize())
  }

  private static func peak(_ wheel: inout TimerWheel, _ count: Int) -> [TimerWheel.Token] {
    (0..<count).map { index in
      wheel.schedule(
        deadline: UInt64(index) &* 2_654_435_761 % 3_600_000_000, payload: UInt64(index))
    }
  }

  @Test func afterAPeakMemoryThatNoTimerNeedsIsReturnedToTheSystem() async {
    // In a process of its own, where no other test takes or returns memory.
    await #expect(processExitsWith: .success) {
      var wheel = TimerWheel()
      let tokens = MemoryTests.peak(&wheel, 3_000_000)
      let full = try MemoryTests.residentBytes()
      for token in tokens.dropFirst(10) { wheel.cancel(token) }
      wheel.releaseUnusedMemory()
      let left = try MemoryTests.residentBytes()
      precondition(left < full - 60 * MemoryTests.mebibyte)
      precondition(tokens.prefix(10).allSatisfy { wheel.isArmed($0) })
    }
  }

  @Test func afterAPeakTheFewTimersLeftExpire() {
    var wheel = TimerWheel()
    let tokens = Self.peak(&wheel, 1_000_000)
    for (index, token) in tokens.enumerated() where index >= 10 { wheel.cancel(token) }
    wheel.releaseUnusedMemory()
    wheel.checkInvariants()
    #expect(tokens.prefix(10).allSatisfy { wheel.isArmed($0) })
    #expect(wheel.isArmed(tokens[999_999]) == false)
    var payloads: Set<UInt64> = []
    var budget = Int.max
    while let due = wheel.advance(to: 3_600_000_000, budget: &budget) {
      payloads.insert(due.payload)
    }
    #expect(payloads == Set(0..<10))
  }

  @Test func whenNoTimerIsLeftNearlyAllMemoryIsReturnedAndTheWheelStillWorks() throws {
    var wheel = TimerWheel()
    let small = wheel.allocatedBytes
    let tokens = Self.peak(&wheel, 1_000_000)
    for token in tokens { wheel.cancel(token) }
    #expect(wheel.allocatedBytes > 20 * Self.mebibyte)
    wheel.releaseUnusedMemory()
    #expect(wheel.allocatedBytes == small)

    let token = wheel.schedule(deadline: 5, payload: 7)
    #expect(wheel.isArmed(tokens[0]) == false)
    #expect(wheel.deadline(of: token) == 5)
    wheel.checkInvariants()
  }
}
