import Testing
import Wire

@testable import Countdowns

/// CLIENT, as Redis client libraries use it.
@Suite struct ClientCommandTests {
  let counter = DispatcherHarness()

  private func fields(_ line: some StringProtocol) -> [(name: String, value: String)] {
    line.split(separator: " ").map { pair in
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      return (String(parts[0]), parts.count > 1 ? String(parts[1]) : "no value")
    }
  }

  private func info(of session: Session? = nil) throws -> [String: String] {
    let text = try counter.say("CLIENT INFO", by: session).text
    return Dictionary(uniqueKeysWithValues: fields(text.dropLast()).map { ($0.name, $0.value) })
  }

  @Test func clientInfoAndListHaveTheFieldsOfRedisInItsOrder() throws {
    let names = [
      "id", "addr", "laddr", "fd", "name", "age", "idle", "flags", "db", "sub", "psub", "ssub",
      "multi", "qbuf", "qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp", "obl", "oll", "omem",
      "tot-mem", "events", "cmd", "user", "redir", "resp", "lib-name", "lib-ver",
    ]
    let text: Set = [
      "addr", "laddr", "name", "flags", "events", "cmd", "user", "lib-name", "lib-ver",
    ]
    _ = counter.open()
    for command in ["CLIENT INFO", "CLIENT LIST"] {
      let lines = try counter.say(command).text.split(separator: "\n")
      for line in lines {
        let fields = fields(line)
        #expect(fields.map(\.name) == names)
        for field in fields where !text.contains(field.name) {
          #expect(Int64(field.value) != nil, "\(field)")
        }
        // Libraries split lines at each blank and each equals sign.
        #expect(fields.allSatisfy { !$0.value.contains("=") }, "\(line)")
      }
    }
    #expect(try counter.say("CLIENT LIST").text.contains(" cmd=NULL "))
  }

  @Test func clientINFOShowsTheTransportTheUserAndWhatTheConnectionIs() throws {
    counter.host.transport = TransportFacts(
      descriptor: 9, path: "/run/a b=c.sock", unreadInput: 5)
    let own = try info()
    #expect(own["laddr"] == "/run/a?b?c.sock:0")
    #expect(own["fd"] == "9")
    #expect(own["qbuf"] == "5")
    #expect(own["user"] == "1000")
    #expect(own["flags"] == "U")
    #expect(own["events"] == "r")
    #expect(own["multi"] == "-1" && own["redir"] == "-1")
    let other = counter.open(.resp3)
    counter.run(["PSUBSCRIBE", "timer:*"], by: other)
    counter.run(["MONITOR"], by: other)
    _ = try counter.take(other)
    other.isBackedUp = true
    let shown = try counter.say("CLIENT LIST TYPE pubsub").text
    #expect(shown.contains(" flags=OPU ") && shown.contains(" events=rw "))
    #expect(shown.split(separator: "\n").count == 1)
    for type in ["master", "replica", "slave"] {
      #expect(try counter.say("CLIENT LIST TYPE \(type)").text == "")
    }
  }

  @Test func clientKILLFindsConnectionsByAgeUserTypeAndBothAddresses() throws {
    counter.pass(60_000)
    let subscriber = counter.open(.resp3)
    counter.run(["SUBSCRIBE", "timer:t"], by: subscriber)
    let stranger = counter.open(as: Peer(uid: 1_001, pid: 8))
    func killed(_ filter: String) throws -> [UInt64] {
      let before = counter.host.closed.count
      let reply = try counter.say("CLIENT KILL \(filter)")
      let victims = counter.host.closed[before...].map(\.connection)
      #expect(reply == .integer(Int64(victims.count)))
      return victims.sorted()
    }
    let others = [subscriber.client.connection, stranger.client.connection]
    #expect(try killed("TYPE pubsub") == [others[0]])
    #expect(try killed("TYPE normal") == [others[1]])
    #expect(try killed("TYPE master") == [])
    #expect(try killed("USER 1001") == [others[1]])
    #expect(try killed("UID 1001 TYPE pubsub") == [])
    #expect(try killed("MAXAGE 1") == [])
    counter.pass(60_000)
    #expect(try killed("MAXAGE 60 SKIPME yes") == others)
    #expect(try killed("MAXAGE 61") == [])
    #expect(try killed("LADDR /nowhere:0") == [])
    #expect(try killed("LADDR /sock:0 SKIPME yes") == others)
    #expect(!counter.session.isClosing)
    #expect(try counter.say("CLIENT KILL MAXAGE 61 SKIPME no") == .integer(1))
    #expect(counter.session.isClosing)
    try DispatcherHarness().expectError("CLIENT KILL MAXAGE 0", "not an integer from 1")
    try DispatcherHarness().expectError("CLIENT KILL USER default", "not an integer from 0")
  }

  @Test func clientREPLYOFFDropsRepliesAndErrorsNotEventsONAnswersAgain() throws {
    let session = counter.open(.resp3)
    _ = try counter.frames(["SUBSCRIBE", "timer:t"], by: session)
    #expect(try counter.frames(["CLIENT", "REPLY", "OFF"], by: session).isEmpty)
    #expect(try counter.frames(["ECHO", "a"], by: session).isEmpty)
    #expect(try counter.frames(["NONSENSE"], by: session).isEmpty)
    #expect(try counter.frames(["CLIENT", "REPLY", "SKIP"], by: session).isEmpty)
    let events = try counter.frames(["TIMER", "SET", "t", "1h"], by: session)
    #expect(events.count == 1 && events[0].elements[2].text.contains("\"set\""))
    counter.host.reloadOutcome = nil
    #expect(try counter.frames(["CONFIG", "RELOAD"], by: session).isEmpty)
    counter.host.reloads.removeLast()(.taken(changed: [], kept: []))
    #expect(try counter.take(session).isEmpty)
    #expect(try counter.say("CLIENT REPLY ON", by: session) == .simple("OK"))
    #expect(try counter.say("ECHO b", by: session) == .bulk("b"))
  }

  @Test func clientREPLYSKIPDropsTheNextReplyOnly() throws {
    #expect(try counter.frames(["CLIENT", "REPLY", "SKIP"]).isEmpty)
    #expect(try counter.frames(["ECHO", "a"]).isEmpty)
    #expect(try counter.say("ECHO b") == .bulk("b"))
    counter.run(["CLIENT", "REPLY", "SKIP"])
    #expect(try counter.say("CLIENT REPLY ON") == .simple("OK"))
    counter.run(["CLIENT", "REPLY", "OFF"])
    #expect(try counter.say("RESET") == .simple("RESET"))
    #expect(try counter.say("ECHO c") == .bulk("c"))
  }

  @Test func noEVICTAndNOTOUCHTakeOnOrOffInAnyCase() throws {
    for name in ["NO-EVICT", "NO-TOUCH"] {
      #expect(try counter.say("CLIENT \(name) OFF") == .simple("OK"))
      try counter.expectError("CLIENT \(name) nonsense", "'nonsense' is not one of on, off")
    }
  }
}
