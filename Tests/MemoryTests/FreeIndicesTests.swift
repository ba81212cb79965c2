import SeededRandom
import Testing

@testable import Memory

@Suite struct FreeIndicesTests {
  @Test(arguments: 0..<10)
  func agreesWithASetWhateverIsTakenAndGivenBack(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var indices = FreeIndices()
    indices.extend(to: 256)
    var taken: Set<UInt32> = []
    for _ in 0..<2_000 {
      switch Int.random(in: 0..<5, using: &generator) {
      case 0, 1:
        let index = indices.take()
        #expect((index == nil) == (taken.count == indices.end))
        if let index {
          let isNew = taken.insert(index).inserted
          #expect(isNew)
        }
      case 2, 3:
        guard let index = taken.randomElement(using: &generator) else { continue }
        indices.insert(index)
        taken.remove(index)
      default:
        let index = UInt32.random(in: 0..<UInt32(indices.end), using: &generator)
        guard !taken.contains(index) else { continue }
        indices.remove(index)
        taken.insert(index)
      }
      var found: [UInt32] = []
      indices.forEachTaken { found.append($0) }
      #expect(found == taken.sorted())
      var free: [Range<Int>] = []
      indices.forEachFreeRegion(of: 64) { free.append($0) }
      let expected = stride(from: 0, to: indices.end, by: 64).map { $0..<$0 + 64 }
        .filter { region in !region.contains { taken.contains(UInt32($0)) } }
      #expect(free == expected)
    }
  }

  @Test func anIndexGivenBackIsTheNextOneTaken() {
    var indices = FreeIndices()
    indices.extend(to: 64)
    #expect(indices.take() == 0)
    #expect(indices.take() == 1)
    indices.insert(0)
    #expect(indices.take() == 0)
  }
}
