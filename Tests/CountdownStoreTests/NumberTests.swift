import Foundation
import Testing

@testable import CountdownStore

/// Numbers given out without a store, or newer than those in a file.
@Suite struct NumberTests {
  private let directory = TemporaryDirectory()

  private func firstNumberWithoutStore(atLeast number: Int64 = wallStart) throws -> Int64 {
    try Store.firstNumber(keepingNothingIn: directory.state, atLeast: number)
  }

  @Test func numbersRiseFromAStoreToNoneAndBack() throws {
    // Many starts take them far ahead of the clock.
    for _ in 0..<3 { _ = try open(directory) }
    let kept = try started(directory)
    let first = try firstNumberWithoutStore()
    #expect(first > kept + Numbers.reserve)
    let second = try firstNumberWithoutStore()
    #expect(second > first + Numbers.reserve)
    #expect(try started(directory) > second + Numbers.reserve)
  }

  @Test func numbersAreReadAsTheyWereWritten() throws {
    mkdir(directory.state, 0o700)
    var numbers = Numbers()
    (numbers.floor, numbers.start, numbers.state) = (7, 8, 9)
    try numbers.write(in: directory.state)
    #expect(try Numbers(in: directory.state) == numbers)
    (numbers.start, numbers.state) = (0, 0)
    // Earlier versions wrote only the floor. What makes no sense counts as no numbers.
    for (text, expected) in [
      ("7 7\n", numbers), ("7 8\n", Numbers()), ("7 8 9 7 8 8\n", Numbers()),
      ("7 8 9 7 8 9", Numbers()),
      ("7 -8 9 7 -8 9\n", numbers), ("\n", Numbers()), ("-1 -1\n", Numbers()),
      ("7 8 9999999999 7 8 9999999999\n", numbers),
    ] {
      try Data(text.utf8).write(to: URL(fileURLWithPath: directory.state + "/numbers"))
      #expect(try Numbers(in: directory.state) == expected, "\(text)")
    }
  }

  @Test func theHighestNumberOfAStartEndsNoDaemon() throws {
    mkdir(directory.state, 0o700)
    var numbers = Numbers()
    numbers.start = .max
    try numbers.write(in: directory.state)
    for _ in 0..<2 { _ = try started(directory) }
  }

  @Test func numbersComeFromTheClockWithoutState() throws {
    #expect(try firstNumberWithoutStore(atLeast: 7) == 7)
    #expect(!FileManager.default.fileExists(atPath: directory.state))
    try FileManager.default.createDirectory(
      atPath: directory.state, withIntermediateDirectories: false)
    #expect(try firstNumberWithoutStore(atLeast: 7) == 7)
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.state) == [])
  }

  @Test func numbersOfARunningDaemonAreLeftAlone() throws {
    let other = try open(directory)
    let numbers = contents(directory.state + "/numbers")
    #expect(try firstNumberWithoutStore(atLeast: 7) == 7)
    #expect(contents(directory.state + "/numbers") == numbers)
    withExtendedLifetime(other) {}
  }

  private func kept(_ store: Store) throws -> [StoredEvents] {
    var all: [StoredEvents] = []
    try store.loadEvents { all.append($0) }
    return all
  }

  @Test func numbersGivenOutElsewhereAreAGapInTheEvents() throws {
    let last = try started(directory) + (1 << 34)
    let life = try Life(directory)
    life.commit(events(last, 3))
    life.close()
    let others = try firstNumberWithoutStore()
    let first = try {
      let store = try open(directory)
      #expect(try kept(store).map(\.lastSequence).suffix(2) == [last, store.firstNumber - 1])
      #expect(try kept(store).last?.afterSequence == store.firstNumber - 1)
      return store.firstNumber
    }()
    #expect(first > others)
    // It stays so, and events go on after it.
    let next = try Life(directory)
    next.commit(events(first + 1, 2))
    next.close()
    let all = try kept(open(directory))
    #expect(all.map(\.lastSequence).suffix(3) == [last, first - 1, first + 1])
    #expect(all.last?.afterSequence == first - 1)
  }

  @Test func aStateOlderThanItsNumbersIsAGapInTheEvents() throws {
    let old = TemporaryDirectory()
    let life = try Life(directory)
    life.commit(events(wallStart * 2))
    life.close()
    try copyState(directory, old)
    _ = try started(directory)
    try FileManager.default.removeItem(atPath: old.state + "/numbers")
    try FileManager.default.copyItem(
      atPath: directory.state + "/numbers", toPath: old.state + "/numbers")
    let restored = try open(old)
    #expect(try kept(restored).last?.afterSequence == restored.firstNumber - 1)
    #expect(try kept(restored).last?.payload == [])
  }

  @Test func aStartThatEndsBeforeItsNumbersAreNotedIsNoGap() throws {
    let life = try Life(directory)
    life.commit(events(wallStart * 2))
    life.close()
    let numbers = directory.state + "/numbers"
    let before = try #require(contents(numbers))
    _ = try started(directory)
    try before.write(to: URL(fileURLWithPath: numbers))
    #expect(try kept(open(directory)).map(\.lastSequence) == [wallStart * 2])
  }
}
