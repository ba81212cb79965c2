import SeededRandom
import Testing

@testable import Countdowns

@Suite struct ShardsTests {
  @Test func theyAreADictionary() {
    var generator = SeededGenerator(seed: 1)
    var shards = Shards<UInt32, Int>()
    var model: [UInt32: Int] = [:]
    for step in 0..<20_000 {
      let key = UInt32.random(in: 0..<3_000, using: &generator)
      let value = Bool.random(using: &generator) ? step : nil
      shards[key] = value
      model[key] = value
    }
    for key in 0..<3_000 as Range<UInt32> { #expect(shards[key] == model[key]) }
    #expect(shards.count == model.count)
  }

  @Test func aSetOfNamesIsASetBeforeAndAfterItIsDivided() {
    var generator = SeededGenerator(seed: 2)
    var names = NameSet()
    var model: Set<[UInt8]> = []
    for _ in 0..<20_000 {
      let name = Array("\(Int.random(in: 0..<3_000, using: &generator))".utf8)
      if Int.random(in: 0..<4, using: &generator) == 0 {
        let isChanged = names.remove(name)
        #expect(isChanged == (model.remove(name) != nil))
      } else {
        let isChanged = names.insert(name)
        #expect(isChanged == model.insert(name).inserted)
      }
      #expect(names.count == model.count && names.contains(name) == model.contains(name))
    }
    #expect(model.count > 2_000 && Set(names) == model)
  }

  @Test func noStepMovesMoreThanAFewOfVeryManyElements() {
    // The least that all parts can have together when one of them grows.
    for shard in 0..<256 {
      let keys = (0..<100_000 as Range<UInt32>).filter { Int($0.shard) == shard }
      #expect(keys.count < 100_000 / 200)
    }
  }
}
