import SeededRandom
import Testing

@testable import Countdowns

/// The changes that the engine hands to a store, batch by batch.
@Suite struct DurableTests {
  private let desk = Desk()
  private let client = Client(connection: 1, uid: 0)

  init() { desk.engine.noteChanges() }

  private func set(_ owner: Owner) throws {
    var set = TimerSet(after: .seconds(60))
    set.owner = owner
    _ = try desk.engine.setTimer(Array("t".utf8).span, set, by: client, at: desk.now)
  }

  private func take() -> [String] { desk.engine.takenChanges() }

  @Test func ownershipByAConnectionDeletesTheStoredRow() throws {
    try set(.none)
    #expect(take() == ["timer 0 t"])
    try set(.connection(1))
    #expect(take() == ["timer 0 gone"])
    // The store has no row of the timer, so there is no change for it.
    try set(.connection(1))
    #expect(take() == [])
    try set(.none)
    #expect(take() == ["timer 0 t"])
  }

  @Test func anEntityThatIsGoneWithinABatchIsHandedOverOnlyIfItWasStored() throws {
    try set(.none)
    try set(.connection(1))
    #expect(take() == [])
    try set(.none)
    _ = take()
    try set(.connection(1))
    try set(.none)
    try set(.connection(1))
    #expect(take() == ["timer 0 gone"])
  }

  @Test func aPlaceIsUsedAgainAtOnce() throws {
    try set(.none)
    _ = take()
    _ = try desk.engine.deleteTimer(Array("t".utf8).span, generation: nil, at: desk.now)
    try set(.none)
    #expect(take() == ["timer 0 t"])
  }

  @Test func changesWhileNothingCanBeStoredAreHandedOverLater() throws {
    try set(.none)
    _ = take()
    desk.engine.isReadOnly = true
    desk.at(120_000)
    desk.engine.isReadOnly = false
    #expect(take() == ["timer 0 gone"])
  }

  @Test func aBatchStoresEachCountdownAsItIsStoredAlone() throws {
    try desk.start("plain")
    try desk.start("rich", token: "t", meta: "m", title: "%ds")
    try desk.start("a plain one with a longer key", count: 7)
    try desk.start("owned", owner: .connection(1))
    try desk.start("last")
    let batch = ChangeWriter(offset: 0)
    desk.engine.takeChanges(into: batch)
    var places: [UInt32] = []
    let isWhole = ChangeEntry.forEach(of: batch.bytes[...]) { entry in
      guard case .current(.countdown, let place, let bytes) = entry else { return }
      places.append(place)
      #expect(Array(bytes) == desk.record(place, offset: 0))
    }
    #expect(isWhole && places == [0, 1, 2, 4])
  }

  @Test(arguments: 0..<20)
  func whatIsCopiedFromTheCountdownBeforeIsWhatWouldBeWritten(seed: UInt64) throws {
    var generator = SeededGenerator(seed: seed)
    let offset = Int64.random(in: -1_000_000...1_000_000, using: &generator)
    var time: Int64 = 0
    var seen: Set<String> = []
    for _ in 0..<300 {
      let name = "\(Int.random(in: 0..<12, using: &generator))"
      switch Int.random(in: 0..<6, using: &generator) {
      case 0: time += Int64.random(in: 1..<3_000, using: &generator)
      case 1:
        _ = try? desk.with(name) {
          try desk.engine.pauseCountdown($0, generation: nil, at: desk.now)
        }
      default: try desk.start(name, count: UInt32.random(in: 1...2, using: &generator))
      }
      desk.at(time)
      let batch = ChangeWriter(offset: offset)
      desk.engine.takeChanges(into: batch)
      _ = ChangeEntry.forEach(of: batch.bytes[...]) { entry in
        guard case .current(.countdown, let place, let bytes) = entry else { return }
        #expect(desk.record(place, offset: offset) == Array(bytes))
        let phase = desk.engine.countdowns.machine(place).phase
        seen.insert("\(phase)".prefix { $0 != "(" } + "")
      }
    }
    #expect(seen == ["counting", "paused", "ready"])
  }
}

extension Desk {
  /// Returns the stored record of a countdown, without the template.
  fileprivate func record(_ place: UInt32, offset: Int64) -> [UInt8]? {
    guard var state = engine.countdowns.state(place).flatMap(CountdownKind.stored) else {
      return nil
    }
    var writer = StateWriter(offset: offset)
    CountdownKind.write(engine.countdowns.key(place).span, &state, to: &writer)
    return writer.bytes
  }
}
