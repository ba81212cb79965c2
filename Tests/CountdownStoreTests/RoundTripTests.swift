import Testing

@testable import CountdownStore
@testable import Countdowns

@Suite struct RoundTripTests {
  private let directory = TemporaryDirectory()

  @Test func recordsComeBackAsTheyWere() throws {
    let highest = countdown(StoredSlots.end - 1, String(repeating: "k", count: 512))
    let all = [
      countdown(0, "a"), countdown(1, "\u{0}", meta: [UInt8](repeating: 0, count: 4_096)), highest,
      timer(0, "a"), timer(7, "b"),
    ]
    try open(directory).write(batch(all))
    #expect(try open(directory).all() == all)
    let changed = countdown(0, "a", until: wallStart + 5, meta: [])
    let store = try open(directory)
    try store.write(batch([changed]))
    #expect(try store.all() == [changed] + all.dropFirst())
  }

  @Test func aPlaceIsUsedAgain() throws {
    let store = try open(directory)
    try store.write(batch([countdown(0, "a"), countdown(1, "b")]))
    try store.write(batch([countdown(0, "c")], gone: [1]))
    #expect(try store.keys() == ["c"])
    // What never was there is gone as well.
    try store.write(batch(gone: [1, 2]))
    #expect(try store.count() == 1)
  }

  @Test func numbersRiseOverRestarts() throws {
    let first = try started(directory)
    #expect(first >= wallStart)
    // Even if the wall clock is set back meanwhile.
    let second = try started(directory, at: reading(2_000_000, wall: 0))
    #expect(second > first + (1 << 32))
    #expect(try open(directory, at: reading(3_000_000, wall: 1 << 52)).firstNumber == 1 << 52)
  }
}
