import Countdowns
import Testing

/// Replies and events of changes that are rolled back are not sent.
@Suite struct WithdrawnTests {
  private let counter: Counter
  private let refusal = "READONLY it is not possible"

  init() {
    counter = Counter()
    counter.dispatcher.engine.noteChanges()
  }

  /// What a session is told of its turn if the changes were not possible.
  private func withdrawn(_ session: Session) throws -> [Reply] {
    try Reply.all(session.takeSaid().withdrawn(refusal, since: 1))
  }

  private func isRefused(_ reply: Reply) -> Bool {
    if case .error(let text) = reply { text == refusal } else { false }
  }

  @Test(arguments: [
    (["COUNTDOWN", "START", "k"], ["COUNTDOWN", "GET", "k"]),
    (["COUNTDOWN", "START", "k"], ["COUNTDOWN", "LIST"]),
    (["TIMER", "SET", "k", "1m"], ["TIMER", "GET", "k"]),
    (["HUD", "SHOW", "k", "DURABLE"], ["HUD", "GET", "k"]),
  ])
  func repliesThatDependOnUnstoredChangesAreWithdrawn(command: [String], question: [String]) throws
  {
    let other = counter.open()
    counter.run(["PING"])
    counter.run(command)
    counter.run(["PING"])
    // Others in the same turn would be told of what is not so.
    counter.run(question, by: other)
    counter.run(["ECHO", "x"], by: other)
    let mine = try withdrawn(counter.session)
    #expect(mine.map(isRefused) == [false, true, false])
    let theirs = try withdrawn(other)
    #expect(theirs.map(isRefused) == [true, false])
    #expect(theirs.last?.text == "x")
  }

  @Test func independentRepliesStay() throws {
    let listener = counter.open()
    counter.run(["SUBSCRIBE", "countdown:kept", "countdown:mine"], by: listener)
    _ = try counter.take(listener)
    counter.run(["COUNTDOWN", "START", "mine", "OWNER", "connection"])
    counter.run(["HUD", "SHOW", "mine"])
    #expect(try withdrawn(counter.session).map(isRefused) == [false, false])
    counter.run(["COUNTDOWN", "START", "kept"])
    #expect(try withdrawn(counter.session).map(isRefused) == [true])
    // Of the two events the one that did not happen is gone, without a word.
    let heard = try withdrawn(listener)
    #expect(heard.count == 1)
    #expect(heard.first?.elements.last?.text.contains("\"key\":\"mine\"") == true)
  }

  @Test func aRolledBackReadyIsNotSent() throws {
    let listener = counter.open(.resp3)
    for key in ["a", "b", "c"] { counter.run(["COUNTDOWN", "START", key, "COUNT", "1"]) }
    counter.run(["COUNTDOWN", "START", "mine", "COUNT", "1", "OWNER", "connection"])
    counter.run(["PSUBSCRIBE", "countdown:*"], by: listener)
    _ = listener.takeSaid()
    counter.run(["COUNTDOWN", "START", "d", "COUNT", "1"])
    counter.run(["ECHO", "x"], by: listener)
    counter.pass(1_000)
    counter.run(["ECHO", "y"], by: listener)
    let heard = try withdrawn(listener)
    #expect(heard.compactMap { $0.elements.isEmpty ? $0.text : nil } == ["x", "y"])
    let events = heard.compactMap { $0.elements.last?.text }
    #expect(events.count == 1 && events[0].contains("\"key\":\"mine\""))
  }

  @Test func aSnapshotOfARolledBackChangeIsSentAgain() throws {
    let listener = counter.open()
    counter.run(["COUNTDOWN", "START", "mine", "OWNER", "connection"])
    counter.run(["SUBSCRIBE", "countdown:mine"], by: listener)
    #expect(listener.takeSaid().snapshots.isEmpty)
    counter.run(["COUNTDOWN", "START", "kept"])
    counter.run(["SUBSCRIBE", "countdown:kept", "scope:x"], by: listener)
    let said = listener.takeSaid()
    #expect(said.snapshots == [.channel(Array("countdown:kept".utf8))])
    // Two confirmations, and what is not kept anyway.
    let heard = try Reply.all(said.withdrawn(refusal, since: 1))
    #expect(heard.count == 3)
    #expect(heard.last?.elements.last?.text.contains("\"state\":\"closed\"") == true)
    counter.dispatcher.repeatSnapshots(said.snapshots, for: listener, at: counter.host.now)
    #expect(try Reply.all(listener.takeSaid().bytes).count == 1)
    // Who listens no more is told nothing more.
    counter.run(["UNSUBSCRIBE", "countdown:kept"], by: listener)
    _ = listener.takeSaid()
    counter.dispatcher.repeatSnapshots(said.snapshots, for: listener, at: counter.host.now)
    #expect(listener.takeSaid().bytes.isEmpty)
  }

  @Test func aSubscriptionStandsWhateverItFindsDue() throws {
    let listener = counter.open()
    counter.run(["COUNTDOWN", "START", "k", "COUNT", "1", "EVERY", "1s"])
    counter.run(["TIMER", "SET", "k", "1s"])
    counter.dispatcher.engine.takeCountdownChanges(current: { _, _ in }, gone: { _ in })
    counter.dispatcher.engine.takeTimerChanges(current: { _, _ in }, gone: { _ in })
    #expect(!counter.dispatcher.engine.hasChanges || counter.dispatcher.engine.eventLog.isOn)
    // Nobody has looked since.
    counter.host.now.boot = counter.host.now.boot + Interval.seconds(2)
    counter.run(["SUBSCRIBE", "countdown:k", "timer:k"], by: listener)
    let said = listener.takeSaid()
    #expect(!said.hasChangedAnything)
    let heard = try Reply.all(said.withdrawn(refusal, since: 1))
    #expect(heard.map { $0.elements.first?.text } == ["subscribe", "subscribe"])
    #expect(said.snapshots.count == 2)
  }

  @Test func onlyRepliesThatDependOnAFailedBatchAreWithdrawn() throws {
    func take() -> UInt64 {
      let batch = counter.dispatcher.engine.beginBatch()
      counter.dispatcher.engine.takeTimerChanges(current: { _, _ in }, gone: { _ in })
      return batch
    }
    counter.run(["TIMER", "SET", "k", "1m"])
    _ = take()
    counter.run(["TIMER", "SET", "k", "1m", "OWNER", "connection"])
    let given = take()
    _ = try counter.take()
    // It is the connection's if that batch is stored, whatever comes of the next.
    counter.run(["TIMER", "PAUSE", "k"])
    counter.run(["TIMER", "SET", "other", "1m"])
    let said = counter.session.takeSaid()
    #expect(
      try Reply.all(said.withdrawn(refusal, since: given)).map(isRefused) == [true, true])
    #expect(
      try Reply.all(said.withdrawn(refusal, since: given + 1)).map(isRefused) == [false, true])
  }

  @Test func aNonDurableLevelIsShownBesideADurableOne() throws {
    var settings = EngineSettings()
    settings.maximumLevel = .alert
    counter.dispatcher.engine.reload(settings)
    counter.run(["HUD", "SHOW", "s", "DURABLE"])
    counter.run(["HUD", "SHOW", "s", "LEVEL", "alert"])
    #expect(try withdrawn(counter.session).map(isRefused) == [true, false])
  }

  @Test func earlierBatchesStillBeingStoredCountAsWell() throws {
    counter.run(["COUNTDOWN", "GET", "k"])
    #expect(try withdrawn(counter.session).map(isRefused) == [false])
    counter.dispatcher.turnsUnderWay = 1
    counter.run(["COUNTDOWN", "GET", "k"])
    #expect(try withdrawn(counter.session).map(isRefused) == [true])
  }
}
