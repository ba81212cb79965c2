import Testing

@testable import Countdowns

/// Long commands run in parts.
@Suite struct PartTests {
  let counter = DispatcherHarness()

  private func numbered(_ count: Int) -> [String] { (0..<count).map { "timer:\($0)" } }

  @Test func otherCommandsRunBetweenThePartsOfASubscribe() throws {
    let other = counter.open()
    counter.runFirstPart(["SUBSCRIBE"] + numbered(100))
    #expect(counter.session.next == .part)
    let sofar = counter.dispatcher.engine.subscriptionCount(of: 1)
    #expect(sofar == ReplySlot.elementsPerPart)
    #expect(try counter.say("PUBSUB NUMSUB timer:0 timer:99", by: other).elements[3] == .integer(0))
    counter.finish()
    // Each channel has a confirmation and a snapshot.
    #expect(try counter.take().count == 200)
    #expect(counter.dispatcher.engine.subscriptionCount(of: 1) == 100)
  }

  @Test func allChannelsAreUnsubscribedPartByPart() throws {
    _ = try counter.frames(["SUBSCRIBE"] + numbered(100))
    counter.runFirstPart(["UNSUBSCRIBE"])
    #expect(counter.session.next == .part)
    counter.finish()
    let frames = try counter.take()
    #expect(Set(frames.map { $0.elements[1].text }) == Set(numbered(100)))
    #expect(frames.map { $0.elements[2] } == (0..<100).reversed().map { .integer($0) })
  }

  @Test func aResetForgetsChannelsPartByPartAndThenAnswers() throws {
    _ = try counter.frames(["SUBSCRIBE"] + numbered(100))
    _ = try counter.frames(["PSUBSCRIBE", "a*", "b*"])
    counter.runFirstPart(["RESET"])
    #expect(counter.session.next == .part)
    #expect(try counter.take() == [])
    counter.finish()
    #expect(try counter.take() == [.simple("RESET")])
    #expect(counter.dispatcher.engine.subscriptionCount(of: 1) == 0)
  }

  @Test func channelsAreListedOnceHoweverManyListen() throws {
    let others = [counter.open(), counter.open()]
    for listener in others { _ = try counter.frames(["SUBSCRIBE"] + numbered(40), by: listener) }
    counter.runFirstPart(["PUBSUB", "CHANNELS", "timer:*"])
    #expect(counter.session.next == .part)
    counter.finish()
    let names = try #require(try counter.take().first).elements.map(\.text)
    #expect(names.count == 40 && Set(names) == Set(numbered(40)))
    #expect(try counter.say("PUBSUB CHANNELS timer:7").elements == [.bulk("timer:7")])
  }

  @Test func anUnfinishedReplyCountsAsOutput() throws {
    _ = try counter.frames(["SUBSCRIBE"] + numbered(40))
    counter.session.output.version = .resp3
    counter.runFirstPart(["PUBSUB", "CHANNELS"])
    #expect(counter.session.pendingOutput > 16 * "timer:0".count)
    weak let slot = counter.session.slots.first
    #expect(slot != nil)
    counter.finish()
    #expect(slot == nil)
    _ = try counter.take()
    #expect(counter.session.pendingOutput == 0)
  }

  @Test func aListOfChannelsIsNoLongerThanMaxOutput() throws {
    var settings = Dispatcher.Settings()
    settings.maxOutput = 200
    let counter = DispatcherHarness(settings)
    let listener = counter.open()
    counter.run(
      ["SUBSCRIBE"] + (0..<10).map { "\($0)" + String(repeating: "x", count: 50) }, by: listener)
    #expect(try counter.say("PUBSUB CHANNELS").text.hasPrefix("LIMIT max-output is 200"))
    #expect(try counter.say("PUBSUB CHANNELS 0*").elements.count == 1)
  }

  @Test func manyConnectionsAreListedAndClosedPartByPart() throws {
    for _ in 0..<99 { _ = counter.open(as: Peer(uid: 1_000, pid: 7)) }
    counter.runFirstPart(["CLIENT", "LIST"])
    #expect(counter.session.next == .part)
    counter.finish()
    let lines = try #require(try counter.take().first).text.split(separator: "\n")
    #expect(lines.count == 100)
    counter.runFirstPart(["CLIENT", "KILL", "UID", "1000", "SKIPME", "no"])
    #expect(counter.session.next == .part && !counter.session.isClosing)
    counter.finish()
    #expect(try counter.take() == [.integer(100)])
    #expect(counter.host.closed.count == 99 && counter.session.isClosing)
  }

  @Test func aCommandUnderWayEndsWithItsConnection() throws {
    counter.runFirstPart(["SUBSCRIBE"] + numbered(100))
    counter.dispatcher.close(counter.session)
    #expect(counter.session.next != .part)
  }

  @Test func noMoreNamesThanThereAreCommandsOrSettings() throws {
    let many = [String](repeating: "ping", count: 1_000)
    for words in [["COMMAND", "INFO"], ["COMMAND", "DOCS"], ["CONFIG", "GET"]] {
      let frames = try counter.frames(words + many)
      #expect(frames.count == 1 && frames[0].text.hasPrefix("ERR at most"))
    }
  }

  @Test func manyPatternsMakePagesOfEventsShortAndNoneIsMissing() throws {
    counter.session.output.version = .resp3
    _ = try counter.frames(["PSUBSCRIBE"] + (0..<999).map { "none\($0)" } + ["countdown:?9"])
    for index in 0..<100 { _ = try counter.say("TIMER SET \(index) 1h") }
    for index in 10..<100 { counter.run(["COUNTDOWN", "START", "\(index)"]) }
    _ = try counter.take()
    var (pages, found, sequence) = (0, 0, "0")
    repeat {
      let reply = try counter.frames(["EVENTS", "SINCE", sequence, "SUBSCRIBED", "LIMIT", "10000"])
      let fields = try #require(reply.first).elements
      pages += 1
      if case .integer(let last) = fields[1] { sequence = "\(last)" }
      found += fields[7].elements.count
      guard fields[5] == .boolean(true) else { break }
    } while pages < 1_000
    #expect(found == 9)
    #expect(pages > 5, "no page compares a million times")
  }

  @Test func aBatchIsExpectedToBeForAsManyAsTheLastTwo() throws {
    let (a, b, c) = (counter.session, counter.open(), counter.open())
    /// Serves the sessions in one batch. Returns, after each, whether more clients are expected.
    func batch(_ sessions: Session...) throws -> [Bool] {
      let answers = try sessions.map { session in
        _ = try counter.say("PING", by: session)
        return counter.dispatcher.hasFewerThanLately
      }
      var touched: [Session] = []
      counter.dispatcher.exchangeTouched(&touched)
      #expect(touched.map(\.client.connection) == sessions.map(\.client.connection))
      return answers
    }
    #expect(try batch(a) == [false])
    #expect(try batch(a) == [false])
    // A batch of b and c after one of a: the next batch is expected to serve all three.
    #expect(try batch(b, c) == [false, false])
    #expect(try batch(a, b, c) == [true, true, false])
    #expect(try batch(c, a, b) == [true, true, false])
    // b and c stop sending: two more batches expect them.
    #expect(try batch(a) == [true])
    #expect(try batch(a) == [true])
    #expect(try batch(a) == [false])
  }
}
