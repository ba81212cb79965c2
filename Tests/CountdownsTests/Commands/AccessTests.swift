import Countdowns
import Testing
import Wire

/// Permissions, and limits for each user.
@Suite struct AccessTests {
  private func dispatcherSettings(
    _ change: (inout Dispatcher.Settings) -> Void
  ) -> Dispatcher.Settings {
    var settings = Dispatcher.Settings()
    change(&settings)
    return settings
  }

  private func text(_ reply: Reply) -> String {
    if case .error(let text) = reply { text } else { "" }
  }

  @Test func onlyRootTheDaemonsOwnUserAndUsersThatTheRulesNameMayManageTheDaemon() throws {
    let counter = DispatcherHarness(
      dispatcherSettings { $0.access.admin = Principals(users: [2_000], groups: [50]) })
    for peer in [
      Peer(uid: 0), Peer(uid: 1_000), Peer(uid: 2_000), Peer(uid: 3_000, groups: [3_000, 50]),
    ] {
      #expect(try counter.say("SLOWLOG LEN", by: counter.open(as: peer)) == .integer(0), "\(peer)")
    }
    let other = counter.open(as: Peer(uid: 3_000, groups: [3_000]))
    for line in [
      "SLOWLOG RESET", "MONITOR", "SHUTDOWN", "CONFIG GET *", "CONFIG RELOAD",
      "CONFIG SET log-level debug", "CLIENT LIST", "CLIENT KILL UID 0", "CLOCK ADVANCE 1s",
    ] {
      let refusal = text(try counter.say(line, by: other))
      let name = line.split(separator: " ")[0]
      #expect(refusal.hasPrefix("NOPERM \(name)"), "\(refusal)")
      #expect(refusal.contains("access.admin.users: [3000]"), "\(refusal)")
    }
    #expect(!counter.host.isShutDown && counter.host.closed.isEmpty)
    for line in ["PING", "COUNTDOWN START k", "INFO server", "CLIENT ID", "CONFIG HELP"] {
      #expect(text(try counter.say(line, by: other)) == "", "\(line)")
    }
  }

  @Test func reloadedRulesApplyToCommandsAtOnce() throws {
    let counter = DispatcherHarness()
    let other = counter.open(as: Peer(uid: 3_000))
    #expect(text(try counter.say("SLOWLOG LEN", by: other)).hasPrefix("NOPERM"))
    var settings = counter.dispatcher.settings
    settings.access.admin.users = [3_000]
    counter.dispatcher.reload(settings)
    #expect(try counter.say("SLOWLOG LEN", by: other) == .integer(0))
  }

  @Test func everybodyMayConnectUntilTheRulesNameSomebodyRootAndTheDaemonsUserAlways() throws {
    var rules = AccessRules(daemonUser: 1_000)
    try rules.checkConnect(Peer(uid: 7))
    rules.connect.groups = [50]
    try rules.checkConnect(Peer(uid: 7, groups: [7, 50]))
    try rules.checkConnect(Peer(uid: 0))
    try rules.checkConnect(Peer(uid: 1_000))
    let refusal = #expect(throws: CommandError.self) {
      try rules.checkConnect(Peer(uid: 7, groups: [7]))
    }
    #expect(refusal?.text.hasPrefix("NOPERM uid 7 may not connect: access.connect") == true)
  }

  // MARK: Output and shares

  @Test func aUserWithTooMuchUnreadOutputGetsLIMITOthersDoNotNotice() throws {
    let counter = DispatcherHarness(dispatcherSettings { $0.maxOutputPerUser = 2_000 })
    let reader = counter.open(as: Peer(uid: 5))
    let slow = counter.open(as: Peer(uid: 5))
    let other = counter.open(as: Peer(uid: 6))
    counter.run(["ECHO", String(repeating: "x", count: 2_000)], by: slow)
    #expect(counter.dispatcher.isFull(reader) && counter.dispatcher.mayHaveRoomSoon(reader))
    var touched: [Session] = []
    counter.dispatcher.exchangeTouched(&touched)
    #expect(!counter.dispatcher.mayHaveRoomSoon(reader))

    #expect(text(try counter.say("PING", by: reader)).hasPrefix("LIMIT max-output-per-uid is 2000"))
    #expect(counter.host.limitsReached == ["max-output-per-uid 2000 uid 5"])
    #expect(!counter.dispatcher.isFull(other))
    #expect(try counter.say("DBSIZE", by: other) == .integer(0))
    // Commands that make room are still accepted.
    #expect(text(try counter.frames(["UNSUBSCRIBE"], by: reader)[0]) == "")

    _ = try counter.take(slow)
    counter.dispatcher.account(slow)
    counter.dispatcher.account(reader)
    #expect(!counter.dispatcher.isFull(reader))
    #expect(try counter.say("DBSIZE", by: reader) == .integer(0))
  }

  @Test func whenAnEventExceedsAUsersLimitTheConnectionThatHasReadLeastIsClosed() throws {
    let counter = DispatcherHarness(dispatcherSettings { $0.maxOutputPerUser = 4_000 })
    let slow = counter.open(as: Peer(uid: 5))
    let listener = counter.open(as: Peer(uid: 5))
    _ = try counter.frames(["SUBSCRIBE", "timer:t"], by: listener)
    counter.run(["ECHO", String(repeating: "x", count: 3_900)], by: slow)
    _ = try counter.say("TIMER SET t 1h")
    #expect(counter.host.closed.map(\.connection) == [2])
    #expect(counter.host.closed[0].reason.description.contains("max-output-per-uid is 4000"))
    #expect(slow.isClosing && !listener.isClosing && !counter.dispatcher.isFull(listener))
  }

  @Test func unreadOutputOfClosedConnectionsNoLongerCountsForTheirUser() throws {
    let counter = DispatcherHarness(dispatcherSettings { $0.maxOutputPerUser = 2_000 })
    let slow = counter.open(as: Peer(uid: 5))
    let other = counter.open(as: Peer(uid: 5))
    counter.run(["ECHO", String(repeating: "x", count: 3_000)], by: slow)
    #expect(counter.dispatcher.isFull(other))
    counter.dispatcher.close(slow)
    #expect(!counter.dispatcher.isFull(other))
    #expect(counter.dispatcher.users[5]?.connections == 1)
    counter.dispatcher.close(other)
    #expect(counter.dispatcher.users[5] == nil)
  }

  @Test func amongOthersAUsersManyConnectionsShareOneBatchsCommandsAloneTheyDoNot() throws {
    let counter = DispatcherHarness()
    let many = (0..<100).map { _ in counter.open() }
    #expect(many.allSatisfy { counter.dispatcher.beginTurn($0, 512) == 512 })
    let other = counter.open(as: Peer(uid: 6))
    for _ in 0..<2 {
      for session in many { _ = counter.dispatcher.beginTurn(session, 512) }
      counter.dispatcher.fairness.beginRound()
    }
    let shares = many.map { counter.dispatcher.beginTurn($0, 512) }
    #expect(shares.allSatisfy { $0 == 512 * 8 / 100 })
    #expect(counter.dispatcher.beginTurn(other, 512) == 512)
  }

  @Test func longCommandsCountForSeveral() {
    let counter = DispatcherHarness()
    #expect(counter.runFirstPart(["PING"]) == 1)
    counter.host.cost = 2_000
    #expect(counter.runFirstPart(["PING"]) == 501)
  }

  @Test func whatAUserSpendsIsLimitedInEachRound() {
    let counter = DispatcherHarness()
    let (one, two) = (counter.open(as: Peer(uid: 5)), counter.open(as: Peer(uid: 5)))
    counter.host.cost = 4 * 512 * 8
    counter.runFirstPart(["PING"], by: one)
    #expect(counter.dispatcher.beginTurn(two, 512) == 0)
    #expect(counter.dispatcher.beginTurn(counter.session, 512) == 512)
    counter.dispatcher.fairness.beginRound()
    #expect(counter.dispatcher.beginTurn(two, 512) == 512)
  }

  @Test func outputCountsUntilItsConnectionIsClosed() throws {
    let counter = DispatcherHarness(dispatcherSettings { $0.maxOutputPerUser = 2_000 })
    let slow = counter.open(as: Peer(uid: 5))
    let other = counter.open(as: Peer(uid: 5))
    counter.run(["ECHO", String(repeating: "x", count: 3_000)], by: slow)
    slow.outbound.append(slow.takeOutput())
    counter.run(["QUIT"], by: slow)
    #expect(counter.dispatcher.isFull(other))
    counter.dispatcher.close(slow)
    #expect(!counter.dispatcher.isFull(other))
  }

  @Test func memoryIsReturnedOnceAfterAPeak() throws {
    let counter = DispatcherHarness()
    let slow = counter.open()
    slow.outbound.append([UInt8](repeating: 0, count: 10 << 20))
    counter.dispatcher.account(slow)
    #expect(!counter.dispatcher.takePeak())
    slow.outbound.removeAll()
    counter.dispatcher.account(slow)
    #expect(counter.dispatcher.takePeak())
    #expect(!counter.dispatcher.takePeak())
  }

  // MARK: Reload

  @Test func aConnectionThatWasClosedDuringAReloadGetsNoAnswer() throws {
    let counter = DispatcherHarness()
    let gone = counter.open()
    counter.run(["CONFIG", "RELOAD"], by: gone)
    counter.dispatcher.close(gone)
    counter.host.reloads.removeFirst()(.taken(changed: [], kept: []))
    #expect(try counter.take(gone) == [])
  }
}
