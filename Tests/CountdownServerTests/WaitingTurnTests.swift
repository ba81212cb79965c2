import Countdowns
import Testing

@testable import CountdownServer

/// Turns that wait for the disk while others go on, as with `power`: what those do rests on the ones that
/// wait only where it has to.
@Suite final class WaitingTurnTests {
  private let kept: KeptEngine

  init() throws { kept = try KeptEngine() }
  deinit { kept.remove() }

  /// Whether what was done is what needs storing, or rests on a turn that is not stored yet.
  private func effect(_ body: () throws -> Void) rethrows -> (
    isKept: Bool, isAnything: Bool, restsOn: UInt64?
  ) {
    let (changes, all) = (kept.engine.changeCount, kept.engine.anyChangeCount)
    kept.engine.restsOnBatch = nil
    try body()
    return (
      kept.engine.changeCount != changes, kept.engine.anyChangeCount != all,
      kept.engine.restsOnBatch
    )
  }

  // MARK: Places

  @Test func anEntityStartedDuringADeletionHasItsOwnPlace() throws {
    try kept.start("a")
    try kept.set("a", 60)
    try kept.begin("a")
    try kept.show("a", durable: true)
    try kept.store()
    try kept.cancel("a")
    try kept.delete("a")
    try kept.forget("a")
    try kept.dismiss("a")
    let deletion = kept.endTurn()
    #expect(deletion.ended.count == 4)
    let effect = try effect {
      try kept.start("b", owner: .connection(1))
      try kept.set("b", 60, owner: .connection(1))
      try kept.begin("b", owner: .connection(1))
      try kept.show("b", durable: false, owner: .connection(1))
    }
    #expect(!effect.isKept && effect.isAnything && effect.restsOn == nil)
    kept.isBroken = true
    try kept.takeBack(deletion)
    #expect(kept.entityCount == 8)
    #expect(kept.left("a") == 60_000 && kept.left("b") == 60_000)
    #expect(kept.timer("a") != nil && kept.timer("b") != nil)
    #expect(kept.once("a")?.state == .running && kept.once("b")?.state == .running)
    #expect(kept.hud("a") != nil && kept.hud("b") != nil)
  }

  @Test func aPlaceIsUsedAgainOnceNothingIsStoredThere() throws {
    var places: Set<[UInt32]> = []
    for _ in 0..<300 {
      try kept.start("a")
      try kept.set("a", 60)
      try kept.begin("a")
      try kept.show("a", durable: true)
      let turn = kept.endTurn()
      places.insert(turn.changed.map(\.place))
      try kept.store(turn)
      try kept.cancel("a")
      try kept.delete("a")
      try kept.forget("a")
      try kept.dismiss("a")
      try kept.store()
    }
    #expect(places.count <= 2)
    #expect(kept.entityCount == 0)
  }

  @Test func aPlaceIsFreeIfNothingWasEverStoredThere() throws {
    try kept.start("stays")
    try kept.store()
    kept.isBroken = true
    for _ in 0..<300 {
      try kept.start("a")
      let start = kept.endTurn()
      #expect(start.changed.allSatisfy { $0.place <= 2 })
      try kept.cancel("a")
      let end = kept.endTurn()
      try kept.takeBack(start)
      try kept.takeBack(end)
    }
    #expect(kept.entityCount == 1)
  }

  // MARK: A name that a connection took

  @Test func ownedChangesDependOnTheBatchThatGaveTheName() throws {
    let before = try kept.set("a", 60)
    try kept.store()
    let given = try effect { try kept.set("a", 5, owner: .connection(1)) }
    #expect(given.isKept)
    let turn = kept.endTurn()
    let paused = try effect { try kept.pause("a") }
    #expect(!paused.isKept && paused.restsOn == turn.number)
    kept.isBroken = true
    try kept.takeBack(turn)
    #expect(kept.timer("a")?.generation == before.generation)
    #expect(kept.timer("a")?.remainingMS == 60_000)
  }

  @Test func ownedChangesDependOnNoLaterBatch() throws {
    try kept.set("a", 60)
    try kept.store()
    let mine = try kept.set("a", 5, owner: .connection(1))
    let first = kept.endTurn()
    try kept.pause("a")
    try kept.set("b", 60)
    let second = kept.endTurn()
    try kept.store(first)
    kept.isBroken = true
    try kept.takeBack(second)
    #expect(kept.timer("b") == nil)
    #expect(kept.timer("a")?.generation == mine.generation)
    #expect(kept.timer("a")?.state == .paused)
    let later = try effect { try kept.delete("a") }
    #expect(!later.isKept && later.restsOn == nil)
    #expect(kept.entityCount == 0 && !kept.hasChanges)
  }

  // MARK: Levels of screens

  @Test func aNonDurableLevelIsNoChange() throws {
    let durable = try kept.show("s", durable: true)
    try kept.store()
    var alert: HUDView?
    let shown = try effect { alert = try kept.show("s", durable: false, level: .alert) }
    #expect(!shown.isKept && shown.isAnything && shown.restsOn == nil)
    #expect(!kept.hasChanges)
    // In a turn with something else that fails.
    try kept.start("a")
    kept.isBroken = true
    try kept.takeBack()
    #expect(kept.hud("s", level: .alert)?.generation == alert?.generation)
    #expect(kept.hud("s", level: .normal)?.generation == durable.generation)
    // Nor is it refused.
    kept.engine.isReadOnly = true
    try kept.dismiss("s", level: .alert)
    #expect(kept.hud("s")?.level == .normal)
    #expect(throws: EngineError.readOnly) { try kept.dismiss("s", level: .normal) }
    #expect(throws: EngineError.readOnly) { try kept.show("s", durable: true, level: .alert) }
  }

  @Test func aRestoredLevelKeepsItsPlace() throws {
    try kept.show("s", durable: true)
    let alert = try kept.show("s", durable: true, level: .alert)
    try kept.store()
    kept.isBroken = true
    try kept.dismiss("s", level: .alert)
    let sameTurn = try effect { try kept.show("s", durable: false, level: .alert) }
    #expect(sameTurn.isKept)
    try kept.takeBack()
    #expect(kept.hud("s")?.generation == alert.generation)

    try kept.dismiss("s", level: .alert)
    let turn = kept.endTurn()
    let later = try effect { try kept.show("s", durable: false, level: .alert) }
    #expect(!later.isKept && later.restsOn == turn.number)
    try kept.takeBack(turn)
    #expect(kept.hud("s")?.generation == alert.generation)

    kept.isBroken = false
    try kept.dismiss("s", level: .alert)
    try kept.store()
    let free = try effect { try kept.show("s", durable: false, level: .alert) }
    #expect(!free.isKept && free.restsOn == nil)
  }

  @Test func aRestoredScreenKeepsItsPlace() throws {
    let durable = try kept.show("s", durable: true)
    try kept.store()
    kept.isBroken = true
    try kept.dismiss("s")
    let other = try effect { try kept.show("s", durable: false, owner: .connection(1)) }
    #expect(other.isKept)
    try kept.takeBack()
    #expect(kept.hud("s")?.generation == durable.generation && kept.entityCount == 1)
  }

  @Test func aLevelShownAfterARolledBackOneMakesWay() throws {
    try kept.show("s", durable: true)
    try kept.store()
    kept.isBroken = true
    try kept.show("s", durable: true, level: .alert)
    let first = kept.endTurn()
    try kept.dismiss("s", level: .alert)
    let second = kept.endTurn()
    let after = try effect { try kept.show("s", durable: false, level: .alert) }
    #expect(after.restsOn == second.number)
    try kept.takeBack(first)
    try kept.takeBack(second)
    #expect(kept.hud("s", level: .alert) == nil && kept.hud("s", level: .normal) != nil)
  }

  @Test func aLevelShownAfterADurableOneEndedStays() throws {
    try kept.show("s", durable: true)
    try kept.store()
    kept.isBroken = true
    try kept.show("s", durable: true, level: .alert)
    let first = kept.endTurn()
    try kept.dismiss("s", level: .alert)
    let second = kept.endTurn()
    try kept.takeBack(first)
    // Nothing can come back to that level any more.
    var alert: HUDView?
    let after = try effect { alert = try kept.show("s", durable: false, level: .alert) }
    #expect(!after.isKept && after.restsOn == nil)
    try kept.takeBack(second)
    #expect(kept.hud("s", level: .alert)?.generation == alert?.generation)
    #expect(kept.hud("s", level: .normal) != nil)
  }

  @Test func aLevelThatWasNeverStoredDoesNotComeBack() throws {
    kept.isBroken = true
    try kept.show("s", durable: true)
    try kept.dismiss("s")
    var view: HUDView?
    let shown = try effect { view = try kept.show("s", durable: false) }
    #expect(!shown.isKept && shown.restsOn == nil)
    try kept.start("a")
    try kept.takeBack()
    #expect(kept.hud("s")?.generation == view?.generation && kept.countdown("a") == nil)
  }

  // MARK: Time

  @Test func changesByTimeAreNotTheCallersChanges() throws {
    try kept.start("a", count: 1)
    try kept.set("a", 1)
    try kept.begin("a")
    try kept.show("a", durable: true) { $0.maximum = .seconds(1) }
    try kept.store()
    kept.passUnnoticed(60_000)
    let looked = effect {
      #expect(kept.countdown("a")?.state == .ready)
      #expect(kept.timer("a") == nil && kept.once("a") == nil && kept.hud("a") == nil)
    }
    #expect(!looked.isKept && !looked.isAnything && looked.restsOn == nil)
    // But it is stored.
    #expect(kept.endTurn().ended.count == 3)
  }
}
