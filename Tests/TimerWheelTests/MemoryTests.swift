import Glibc
import Testing
import TimerWheel

/// Memory that a peak needed can be returned.
@Suite(.serialized) struct MemoryTests {
  private static let mebibyte = 1 << 20

  /// Returns the resident memory of this process, in bytes.
  private func residentBytes() throws -> Int {
    let file = try #require(fopen("/proc/self/statm", "r"))
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 128)
    try #require(fgets(&line, CInt(line.count), file) != nil)
    let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    let pages = try #require(Int(text.split(separator: " ")[1]))
    return pages * Int(getpagesize())
  }

  private func peak(_ wheel: inout TimerWheel, _ count: Int) -> [TimerWheel.Token] {
    (0..<count).map { index in
      wheel.schedule(
        deadline: UInt64(index) &* 2_654_435_761 % 3_600_000_000, payload: UInt64(index))
    }
  }

  @Test func afterAPeakMemoryThatTheFewTimersLeftDoNotNeedIsReturnedAndTheyExpire() throws {
    var wheel = TimerWheel()
    let tokens = peak(&wheel, 3_000_000)
    let full = try residentBytes()
    for (index, token) in tokens.enumerated() where index >= 10 { wheel.cancel(token) }
    wheel.releaseUnusedMemory()
    #expect(try residentBytes() < full - 60 * Self.mebibyte)

    wheel.checkInvariants()
    #expect(tokens.prefix(10).allSatisfy { wheel.isArmed($0) })
    #expect(wheel.isArmed(tokens[2_999_999]) == false)
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
    let tokens = peak(&wheel, 1_000_000)
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
