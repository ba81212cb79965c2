import Countdowns
import Foundation
import Fuzzing
import Testing

/// The corpus of inputs, and a few seeds. `make fuzz` plays more.
@Suite struct FuzzTests {
  private static let seeds: [String: Range<UInt64>] = [
    "wheel": 0..<10, "requests": 0..<40, "configuration": 0..<100, "state": 0..<10,
    "transfer": 0..<40,
  ]

  @Test(arguments: 0..<fuzzTargets.count)
  func withstandsTheCorpusAndAFewSeeds(_ index: Int) throws {
    let fuzz = try fuzzTargets[index].init()
    let name = fuzzTargets[index].name
    for (name, input) in try Corpus.cases(of: name) {
      do { try fuzz.check(input) } catch { Issue.record(error, "case \(name)") }
    }
    for seed in try #require(Self.seeds[name]) {
      do { try fuzz.check(fuzz.input(seed: seed)) } catch { Issue.record(error, "seed \(seed)") }
    }
  }

  // MARK: Each input does what its name says

  /// Returns the texts of a target's inputs by name, without the part behind the point.
  private static func texts(of target: String) throws -> [String: String] {
    let cases = try Corpus.cases(of: target).map {
      (String($0.name.prefix { $0 != "." }), String(decoding: $0.input, as: UTF8.self))
    }
    return Dictionary(uniqueKeysWithValues: cases)
  }

  /// Commands that always fail, or do so without the parts of a daemon.
  private static let refused: Set = [
    "AUTH", "WATCH", "CONFIG RELOAD", "STATE ACKNOWLEDGE", "JOURNAL READ", "FLEET IMPORT",
    "FLEET INIT", "FLEET ACCEPT-LOSS", "CLOCK RESTART", "CLOCK REBOOT",
  ]

  @Test(arguments: RequestGrammar.groups)
  func requestsHaveEachCommandOfTheFamilyAndItIsAccepted(_ group: CommandSpec.Group) throws {
    let text = try #require(try Self.texts(of: "requests")[group.name])
    for name in RequestGrammar.names(group) {
      #expect(text.contains("\(name) ") || text.contains("\(name)\n"), "\(name)")
    }
    let lines = text.split(separator: "\n").filter { line in
      !Self.refused.contains { line.hasPrefix($0) }
    }
    let replies = try RequestFuzz.replies(to: Array(lines.map { "\($0)\n" }.joined().utf8))
    #expect(replies.count >= lines.count)
    #expect(replies.filter { $0.contains("error") } == [])
  }

  @Test func configurationsHaveEachSectionAndAreLoadedUnlessNamedAfterTheirError() throws {
    let fuzz = try ConfigurationFuzz()
    let texts = try Self.texts(of: "configuration")
    for (name, text) in texts {
      let problems = try fuzz.problems(of: Array(text.utf8))
      #expect(problems.isEmpty == !name.hasPrefix("error"), "\(name): \(problems)")
      #expect(name.hasPrefix("error") || name == "daemon" || text.hasPrefix("\(name):"), "\(name)")
    }
    let example = URL(filePath: #filePath).appending(path: "../../../config/countdownd.yaml")
    for line in try String(contentsOf: example.standardized, encoding: .utf8).split(separator: "\n")
    {
      guard let section = line.wholeMatch(of: #/([a-z-]+):.*/#)?.1 else { continue }
      #expect(texts[String(section)] != nil || texts["daemon"]!.contains(section), "\(section)")
    }
  }

  @Test func damagedStatesAreReadAsTheirFirstLineSays() throws {
    let fuzz = try StateFuzz()
    let texts = try Self.texts(of: "state")
    for (name, text) in texts {
      let outcome = try fuzz.outcome(of: Array(text.utf8))
      #expect(text.hasPrefix("# \(outcome)\n"), "\(name): \(outcome)")
    }
    for kind in EntityKind.durable { #expect(texts["\(kind.name)-is-damaged"] != nil) }
  }

  @Test(arguments: EntityKind.allCases)
  func transfersHaveEachKind(_ kind: EntityKind) throws {
    let text = try #require(try Self.texts(of: "transfer")["\(kind.name)"])
    #expect(try TransferFuzz().held(Array(text.utf8))[kind, default: 0] > 0)
    #expect(text.contains("\ntransfer\n"))
  }

  @Test func aWrongAnswerIsAFailure() {
    #expect(throws: FuzzFailure.self) { try WheelFuzz().check(Array("no number".utf8)) }
    // Only the first engine queues what follows the transfer.
    let differing = "MULTI\ntransfer\nTIMER SET a 1h\nwait 0\n"
    #expect(throws: FuzzFailure.self) { try TransferFuzz().check(Array(differing.utf8)) }
    #expect(throws: FuzzFailure.self) { try StateFuzz().check(Array("no damage".utf8)) }
  }
}
