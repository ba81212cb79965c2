import Testing
import Wire

@testable import Countdowns

/// BRIEF: START and RESEND reply with three integers.
@Suite struct BriefTests {
  let counter = DispatcherHarness()

  private func brief(_ line: String, by session: Session? = nil) throws -> [Int64] {
    guard case .array(let values) = try counter.say(line, by: session) else {
      Issue.record("no array")
      return []
    }
    return try values.map {
      guard case .integer(let value) = $0 else { throw CommandError("no integer: \($0)") }
      return value
    }
  }

  @Test(arguments: [RESPEncoder.Version.resp2, .resp3])
  func briefRepliesWithAcceptedTheGenerationAndTheTimeToWait(version: RESPEncoder.Version) throws {
    let session = counter.open(version)
    let accepted = try brief("COUNTDOWN START k COUNT 3 BRIEF", by: session)
    let view = try counter.say("COUNTDOWN GET k")
    guard case .integer(let generation)? = view["generation"] else {
      Issue.record("no generation")
      return
    }
    #expect(accepted == [1, generation, 3_000])
    counter.host.now.boot = counter.host.now.boot + .milliseconds(1_200)
    #expect(try brief("countdown start k brief", by: session) == [0, generation, 1_800])
    counter.host.now.boot = counter.host.now.boot + .milliseconds(1_800)
    let again = try brief("COUNTDOWN RESEND k TOKEN t BRIEF", by: session)
    #expect(again[0] == 1 && again[1] > generation && again[2] == 3_000)
  }

  @Test func briefMarksARepetitionWhichSendsNothing() throws {
    let first = try brief("COUNTDOWN START k COUNT 3 TOKEN x BRIEF")
    #expect(first[0] == 1)
    #expect(try brief("COUNTDOWN START k TOKEN x BRIEF") == [2, first[1], 3_000])
    #expect(try brief("COUNTDOWN RESEND k TOKEN x BRIEF") == [0, first[1], 3_000])
    counter.pass(3_000)
    let again = try brief("COUNTDOWN RESEND k TOKEN x BRIEF")
    #expect(again[0] == 1)
    #expect(try brief("COUNTDOWN RESEND k TOKEN x BRIEF") == [2, again[1], 3_000])
    #expect(try brief("COUNTDOWN START k TOKEN x BRIEF") == [2, first[1], 3_000])
  }

  @Test func briefGivenTwiceIsAnErrorErrorsAreNotShortened() throws {
    #expect(try counter.say("COUNTDOWN START k BRIEF BRIEF").isError("ERR BRIEF is given twice"))
    #expect(
      try counter.say("COUNTDOWN START k COUNT 1 BRIEF EVERY 1s COUNT 2")
        .isError("ERR COUNT is given twice"))
    #expect(try counter.say("COUNTDOWN RESEND k BRIEF").isError("NOTFOUND"))
  }
}

extension Reply {
  fileprivate func isError(_ prefix: String) -> Bool {
    if case .error(let text) = self { text.hasPrefix(prefix) } else { false }
  }
}
