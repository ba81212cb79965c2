import Testing

@testable import Countdowns

/// Replies that come later, in the order of the commands.
@Suite struct ReplySlotTests {
  private let servers = ServersStandIn()
  private let a: FleetCounter
  private var session: Session { a.counter.session }

  init() {
    var settings = FleetSettings()
    settings.reads = .local
    a = FleetCounter(servers, daemon: 1, settings)
  }

  private func run(_ lines: String...) {
    for line in lines { a.counter.run(line.split(separator: " ").map(String.init)) }
  }

  @Test func aCommandThatTheFleetDoesNotDecideWaitsForTheRepliesBeforeIt() throws {
    run("TIMER SET t 1m", "TIMER SET u 1m", "CLIENT SETNAME late")
    #expect(session.next == nil && session.name.isEmpty)
    #expect(try a.counter.take().isEmpty)
    a.settle()
    #expect(session.next == .command && session.name == Array("late".utf8))
    let replies = try a.counter.take()
    #expect(replies.count == 3 && replies[2] == .simple("OK"))
  }

  @Test func errorsKeepTheirPlaceAmongLateReplies() throws {
    run("TIMER SET t 1m", "TIMER SET", "CLIENT SETNAME late")
    a.settle()
    let replies = try a.counter.take()
    try #require(replies.count == 3)
    #expect(replies[0]["generation"] != nil)
    #expect(replies[1].text.contains("wrong number of arguments"))
    #expect(replies[2] == .simple("OK"))
  }

  @Test func aSkippedReplyIsSkippedAlsoIfItComesLate() throws {
    run("CLIENT REPLY SKIP", "TIMER SET t 1m", "TIMER GET u")
    a.settle()
    #expect(try a.counter.take().count == 1)
    run("CLIENT REPLY SKIP", "TIMER SET", "TIMER SET t 1m")
    a.settle()
    let replies = try a.counter.take()
    #expect(replies.count == 1 && replies[0]["generation"] != nil)
  }

  @Test func aReplyThatWaitsForOthersCountsAsOutput() throws {
    try a.say("TIMER SET t 1m")
    run("TIMER SET u 1m", "TIMER GET t")
    #expect(session.output.bytes.isEmpty && session.pendingOutput > 0)
    #expect(session.user?.unreadBytes == session.pendingOutput)
    a.settle()
    #expect(try a.counter.take().count == 2)
    #expect(session.pendingOutput == 0)
  }

  @Test func aClosedConnectionIsOwedNothing() throws {
    try a.say("TIMER SET t 1m")
    run("TIMER SET u 1m", "TIMER GET t", "CLIENT SETNAME late")
    a.counter.dispatcher.close(session)
    #expect(session.isAnswered && session.pendingOutput == 0)
    a.settle()
    #expect(session.output.bytes.isEmpty && session.name.isEmpty)
    #expect(a.counter.dispatcher.unreadBytes == 0)
  }

  @Test func whenTheDaemonEndsNothingIsBegunAndLateRepliesAreAwaited() throws {
    let idle = a.counter.open()
    run("TIMER SET t 1m")
    #expect(a.counter.dispatcher.holdCommandsForFleet())
    #expect(session.next == nil && idle.next == nil)
    a.settle()
    #expect(try a.counter.take().count == 1)
    #expect(!a.counter.dispatcher.holdCommandsForFleet())
    #expect(session.next == nil)
  }
}
