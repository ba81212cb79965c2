import CountdownCore
import Testing

@testable import CountdownEngine

/// The tables against a Dictionary, over random histories.
@Suite struct TableTests {
  private struct Thing: KeyedEntity, Equatable {
    let key: [UInt8]
    var value: Int
  }

  @Test("EntityTable does what a Dictionary does, and indices stay", arguments: 0..<20)
  func entityTable(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var table = EntityTable<Thing>()
    var model: [[UInt8]: (index: UInt32, value: Int)] = [:]
    let keyCount = [3, 50, 2_000][Int(seed % 3)]
    for step in 0..<4_000 {
      let key = Array("\(Int.random(in: 0..<keyCount, using: &generator))".utf8)
      // Grows first, shrinks later: both ways of resizing happen.
      let grows = Int.random(in: 0..<10, using: &generator) < (step < 2_000 ? 7 : 3)
      if let found = table.find(key) {
        #expect(model[key]?.index == found)
        #expect(table[found].value == model[key]?.value)
        if !grows {
          #expect(table.remove(found).key == key)
          model[key] = nil
          #expect(table.find(key) == nil)
        } else {
          table[found].value = step
          model[key]?.value = step
        }
      } else {
        #expect(model[key] == nil)
        if grows {
          let index = table.insert(Thing(key: key, value: step))
          #expect(!model.values.contains { $0.index == index })
          model[key] = (index, step)
        }
      }
      #expect(table.count == model.count)
    }
    for (key, known) in model {
      #expect(table.find(key) == known.index)
      #expect(table.entity(at: Int(known.index)) == Thing(key: key, value: known.value))
    }
    for known in model.values { table.remove(known.index) }
    #expect(table.count == 0)
    #expect(table.indexEnd == 0)
    #expect(table.entity(at: 0) == nil)
  }

  @Test("KeyIndex finds what is there though hashes collide", arguments: 0..<20)
  func keyIndex(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var index = KeyIndex()
    var model: [UInt32: UInt32] = [:]
    // Few hashes, near the end of the table too, so that clusters wrap around.
    let hashes: [UInt32] = [0, 1, 2, 13, 14, 15, 16, 255, 256, .max, .max - 1]
    for _ in 0..<2_000 {
      let entity = UInt32.random(in: 0..<300, using: &generator)
      if let hash = model[entity] {
        #expect(index.find(hash: hash) { $0 == entity } == entity)
        if Bool.random(using: &generator) {
          index.remove(entity, hash: hash)
          model[entity] = nil
          #expect(index.find(hash: hash) { $0 == entity } == nil)
        }
      } else {
        let hash = hashes.randomElement(using: &generator)!
        index.insert(entity, hash: hash)
        model[entity] = hash
      }
      #expect(index.count == model.count)
      let probe = model.randomElement(using: &generator)
      if let probe { #expect(index.find(hash: probe.value) { $0 == probe.key } == probe.key) }
    }
    for (entity, hash) in model {
      #expect(index.find(hash: hash) { $0 == entity } == entity)
    }
  }

  @Test("An EntityRef survives the way through a timer's payload")
  func entityRefs() {
    for kind in EntityKind.allCases {
      for index in [0, 1, 0x8000_0000, .max] as [UInt32] {
        let reference = EntityRef(kind, index)
        #expect(EntityRef(payload: reference.payload) == reference)
      }
    }
  }

  @Test("Policies are beside the entity: a countdown takes no more room for them")
  func size() {
    #expect(MemoryLayout<CountdownEntity>.stride <= 120)
    #expect(MemoryLayout<SendRecord.Send>.stride == 32)
  }

  @Test("Rate limits are many: other guards do not make them larger")
  func guardSize() { #expect(MemoryLayout<GuardEntity>.stride <= 104) }

  @Test("Of texts that many countdowns share there is one copy, and the cache is bounded")
  func titleCache() {
    var cache = TitleCache()
    #expect(cache.titles(counting: nil, ready: nil) == nil)
    for index in 0..<5_000 {
      let text = Array("title \(index % 2_000)".utf8)
      #expect(cache.titles(counting: text, ready: nil)?.counting == text)
    }
  }
}

@Suite struct GlobTests {
  private func matches(_ pattern: String, _ text: String) -> Bool {
    Glob.matches(Array(pattern.utf8), Array(text.utf8))
  }

  @Test("Patterns match as in Redis")
  func patterns() {
    let yes = [
      ("", ""), ("*", ""), ("*", "abc"), ("**", "abc"), ("a*", "abc"), ("*c", "abc"),
      ("a*c", "abc"),
      ("a*b*c", "axxbyyc"), ("?", "a"), ("a?c", "abc"), ("[abc]", "b"), ("[a-c]x", "bx"),
      ("[c-a]", "b"), ("[^a]", "b"), ("[^a-c]", "d"), ("\\*", "*"), ("\\?", "?"), ("a\\bc", "abc"),
      ("[\\]]", "]"), ("[a\\-c]", "-"), ("*a*", "bab"), ("countdown:*", "countdown:a"),
      ("[abc", "b"),
      ("a\\", "a\\"), ("[-]", "-"),
    ]
    for (pattern, text) in yes { #expect(matches(pattern, text), "\(pattern) \(text)") }
    let no = [
      ("", "a"), ("a", ""), ("?", ""), ("a", "ab"), ("ab", "a"), ("a*", "ba"), ("[abc]", "d"),
      ("[^a]", "a"), ("[^a-c]", "b"), ("\\*", "a"), ("[a]", ""), ("*a", "ab"), ("A", "a"),
      ("[]", "a"),
      ("a?", "a"),
    ]
    for (pattern, text) in no { #expect(!matches(pattern, text), "\(pattern) \(text)") }
  }

  @Test("A pathological pattern takes no exponential time")
  func pathological() {
    let pattern = String(repeating: "a*", count: 400) + "b"
    let text = String(repeating: "a", count: 1_000)
    let took = ContinuousClock().measure { #expect(!matches(pattern, text)) }
    #expect(took < .seconds(2))
  }

  @Test("Random patterns: as a plain recursive matcher says", arguments: 0..<10)
  func againstModel(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    func word(_ letters: String, _ most: Int) -> [UInt8] {
      let letters = Array(letters.utf8)
      return (0..<Int.random(in: 0...most, using: &generator)).map { _ in
        letters.randomElement(using: &generator)!
      }
    }
    for _ in 0..<500 {
      let pattern = word("aab**?", 6)
      let text = word("aab", 7)
      #expect(Glob.matches(pattern, text) == model(pattern[...], text[...]), "\(pattern) \(text)")
    }
  }

  private func model(_ pattern: ArraySlice<UInt8>, _ text: ArraySlice<UInt8>) -> Bool {
    guard let first = pattern.first else { return text.isEmpty }
    if first == UInt8(ascii: "*") {
      if model(pattern.dropFirst(), text) { return true }
      return !text.isEmpty && model(pattern, text.dropFirst())
    }
    guard let byte = text.first, first == UInt8(ascii: "?") || first == byte else { return false }
    return model(pattern.dropFirst(), text.dropFirst())
  }
}
