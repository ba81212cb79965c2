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
    let kept = try open(directory).firstNumber
    let first = try firstNumberWithoutStore()
    #expect(first > kept + NumberFloor.reserve)
    let second = try firstNumberWithoutStore()
    #expect(second > first + NumberFloor.reserve)
    #expect(try open(directory).firstNumber > second + NumberFloor.reserve)
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
    let last: Int64
    do {
      let store = try open(directory)
      try store.beginEvents(after: store.firstNumber - 1)
      last = store.firstNumber + 5
      try store.commit(events(last, 3), at: reading())
    }
    let others = try firstNumberWithoutStore()
    let first: Int64
    do {
      let store = try open(directory)
      first = store.firstNumber
      #expect(first > others)
      try store.beginEvents(after: first - 1)
      try store.commit(events(first + 1, 2), at: reading())
      #expect(try kept(store).map(\.lastSequence).suffix(3) == [last, first - 1, first + 1])
      #expect(try kept(store).map(\.afterSequence).suffix(3).last == first - 1)
      #expect(try kept(store).map(\.afterSequence).dropLast().last == first - 1)
    }
    // Nobody else since then: the tail goes on.
    let next = try open(directory)
    try next.commit(events(next.firstNumber, 1), at: reading())
    #expect(try kept(next).last?.afterSequence == first + 1)
  }

  @Test func aStateOlderThanItsNumbersIsAGapInTheEvents() throws {
    let old = TemporaryDirectory()
    do {
      let store = try open(directory)
      try store.commit(events(store.firstNumber, 1), at: reading())
      try copyState(directory, old)
    }
    _ = try open(directory)
    for name in ["state.db", "state.db-wal"] {
      try? FileManager.default.removeItem(atPath: directory.state + "/" + name)
      try FileManager.default.copyItem(
        atPath: old.state + "/" + name, toPath: directory.state + "/" + name)
    }
    let restored = try open(directory)
    #expect(try kept(restored).last?.afterSequence == restored.firstNumber - 1)
    #expect(try kept(restored).last?.payload == [])
  }

  @Test func aStartThatEndsBeforeItsNumbersAreNotedIsNoGap() throws {
    let last: Int64
    do {
      let store = try open(directory)
      last = store.firstNumber
      try store.commit(events(last, 1), at: reading())
    }
    let numbers = directory.state + "/numbers"
    let before = try #require(contents(numbers))
    _ = try open(directory)
    try before.write(to: URL(fileURLWithPath: numbers))
    let store = try open(directory)
    #expect(try kept(store).map(\.lastSequence) == [last])
  }
}
