import Fuzzing
import Testing

/// The corpus of inputs that found defects, and a few seeds. `make fuzz` plays more.
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

  @Test func aWrongAnswerIsAFailure() {
    #expect(throws: (any Error).self) { try WheelFuzz().check(Array("no number".utf8)) }
  }
}
