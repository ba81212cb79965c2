import Countdowns
import Testing

/// What the engine says a store has to keep, batch by batch: a store may still be busy with a batch
/// while the next ones are taken.
@Suite struct DurableTests {
  private let desk = Desk()
  private let client = Client(connection: 1, uid: 0)

  init() { desk.engine.noteChanges() }

  /// What a batch says, as `0 here` or `0 gone` for each place.
  private struct Batch {
    var number: UInt64
    var said: [String] = []
    var gone: [UInt32] = []
  }

  private func take() -> Batch {
    var batch = Batch(number: desk.engine.beginBatch())
    desk.engine.takeTimerChanges(
      current: { index, _ in batch.said.append("\(index) here") },
      gone: { index in
        batch.said.append("\(index) gone")
        batch.gone.append(index)
      })
    return batch
  }

  private func stored(_ batch: Batch) {
    for index in batch.gone { desk.engine.noteGone(.timer, index, in: batch.number) }
  }

  private func set(_ owner: Owner) throws {
    var set = TimerSet(after: .seconds(60))
    set.owner = owner
    _ = try desk.engine.setTimer("t".utf8.span, set, by: client, at: desk.now)
  }

  @Test func ownershipByAConnectionDeletesTheStoredRow() throws {
    try set(.none)
    let first = take()
    #expect(first.said == ["0 here"])
    stored(first)
    try set(.connection(1))
    let second = take()
    #expect(second.said == ["0 gone"])
    stored(second)
    // Nothing of it is stored, so nothing about it is to be.
    try set(.connection(1))
    #expect(take().said == [])
  }

  @Test func aPlaceIsFreedOnceNoLaterBatchIsUnderWay() throws {
    try set(.none)
    stored(take())
    try set(.connection(1))
    let gone = take()
    try set(.none)
    let back = take()
    #expect(back.said == ["0 here"])
    try set(.connection(1))
    // The first batch is stored, the second is about to store what is a connection's by now.
    stored(gone)
    let again = take()
    #expect(again.said == ["0 gone"])
    stored(back)
    stored(again)
    try set(.connection(1))
    #expect(take().said == [])
  }

  @Test func unstoredChangesAreTakenAgain() throws {
    try set(.none)
    stored(take())
    try set(.connection(1))
    let failed = take()
    for index in failed.gone { desk.engine.noteAgain(.timer, index, wasGone: true) }
    let again = take()
    #expect(again.said == ["0 gone"])
    // A late word about the batch that failed would mean nothing.
    stored(failed)
    try set(.connection(1))
    #expect(take().said == [])
    #expect(desk.engine.restsOnBatch == again.number)
    stored(again)
    desk.engine.restsOnBatch = nil
    try set(.connection(1))
    #expect(desk.engine.restsOnBatch == nil)
  }

  @Test func discardedChangesAreNotTakenAgain() throws {
    try set(.none)
    _ = take()
    _ = try desk.engine.deleteTimer("t".utf8.span, generation: nil, at: desk.now)
    let gone = take()
    #expect(gone.said == ["0 gone"])
    // The first batch failed, so nothing of it is stored: the second has nothing to say.
    desk.engine.discard(.timer, 0, at: desk.now)
    desk.engine.noteAgain(.timer, 0, wasGone: true)
    #expect(take().said == [])
    try set(.none)
    #expect(take().said == ["0 here"])
  }

  @Test func anEntityPersistedBrieflyIsDeletedAgain() throws {
    try set(.none)
    stored(take())
    try set(.connection(1))
    let gone = take()
    // Nobody's in this turn, then a connection's again: that is more than the batch before says.
    try set(.none)
    let changes = desk.engine.changeCount
    try set(.connection(1))
    #expect(desk.engine.changeCount > changes)
    let again = take()
    #expect(again.said == ["0 gone"])
    stored(gone)
    stored(again)
    try set(.connection(1))
    #expect(take().said == [])
  }
}
