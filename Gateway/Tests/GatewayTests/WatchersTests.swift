import Testing

@testable import Gateway

@Suite struct WatchersTests {
  /// A reference, because `#expect` cannot call methods that mutate a value.
  private final class Channel {
    private var watchers = Watchers<String>()

    var isIdle: Bool { watchers.isIdle }
    func join(_ reader: String) -> Bool { watchers.join(reader) }
    func leave(_ reader: String) -> Bool { watchers.leave(reader) }
    func disconnect() { watchers.disconnect() }
    func readersOfEvent() -> Set<String> { watchers.readersOfEvent() }
    func readersOfSnapshot(level: String = "") -> Set<String> {
      watchers.readersOfSnapshot(level: level)
    }
  }

  private let watchers = Channel()

  @Test
  func aSnapshotIsForThoseWhoJoinedBeforeItAndForNobodyElse() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot() == ["a"])
    #expect(watchers.join("b"))
    #expect(watchers.readersOfSnapshot() == ["b"])
    #expect(watchers.readersOfEvent() == ["a", "b"])
  }

  @Test
  func aSnapshotThatNobodyHasAskedForIsForEverybody() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot() == ["a"])
    #expect(watchers.join("b"))
    #expect(watchers.readersOfSnapshot() == ["b"])
    #expect(watchers.readersOfSnapshot() == ["a", "b"])
  }

  @Test
  func thoseWhoJoinTogetherShareOneSnapshot() {
    #expect(watchers.join("0"))
    for number in 1..<1_000 { #expect(!watchers.join("\(number)")) }
    #expect(watchers.readersOfSnapshot().count == 1_000)
    #expect(watchers.join("later"))
  }

  @Test
  func aHUDsSnapshotHasAllItsLevels() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot(level: "normal") == ["a"])
    // Who joins between the levels needs another snapshot.
    #expect(watchers.join("b"))
    #expect(watchers.readersOfSnapshot(level: "alert") == ["a"])
    #expect(watchers.readersOfSnapshot(level: "normal") == ["b"])
    #expect(watchers.readersOfSnapshot(level: "alert") == ["b"])
  }

  @Test
  func anEventEndsASnapshot() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot(level: "normal") == ["a"])
    #expect(watchers.join("b"))
    #expect(watchers.readersOfEvent() == ["a", "b"])
    #expect(watchers.readersOfSnapshot(level: "alert") == ["b"])
  }

  @Test
  func afterALostConnectionEverybodyGetsTheNextSnapshotWithoutAsking() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot() == ["a"])
    watchers.disconnect()
    #expect(!watchers.join("b"))
    #expect(watchers.readersOfSnapshot() == ["a", "b"])
  }

  @Test
  func aSnapshotFromBeforeTheChannelWasLeftDoesNotReplaceTheNewOne() {
    #expect(watchers.join("a"))
    #expect(watchers.leave("a"))
    #expect(!watchers.isIdle)
    #expect(watchers.join("b"))
    #expect(watchers.readersOfSnapshot() == ["b"])
    #expect(watchers.readersOfSnapshot() == ["b"])
    #expect(watchers.leave("b"))
    #expect(watchers.isIdle)
  }

  @Test
  func ifTheDaemonRefusesASnapshotTheNextReaderAsksAgain() {
    #expect(watchers.join("a"))
    #expect(watchers.readersOfSnapshot() == ["a"])
    #expect(watchers.join("b"))
    #expect(!watchers.leave("b"))
    #expect(watchers.join("c"))
  }
}
