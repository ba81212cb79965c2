import Foundation
import Testing

@testable import CountdownConfiguration

/// Whatever a file says, it is read or refused; it never stops the program.
@Suite struct MutilatedFileTests {
  @Test func theExampleWithRandomDamage() throws {
    let example = Array(try String(contentsOfFile: examplePath, encoding: .utf8).utf8)
    let inserts = Array("[]{}:,-#&*!|>'\"%@`~?0\n\t \0é".utf8)
    var state: UInt64 = 1
    func random(below bound: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % bound
    }
    var refused = 0
    for _ in 0..<1500 {
      var bytes = example
      for _ in 0...random(below: 4) {
        let place = random(below: bytes.count)
        switch random(below: 4) {
        case 0: bytes.removeSubrange(place..<min(bytes.count, place + 1 + random(below: 20)))
        case 1: bytes.insert(inserts[random(below: inserts.count)], at: place)
        case 2: bytes[place] = inserts[random(below: inserts.count)]
        default: bytes.insert(contentsOf: bytes[place...].prefix(random(below: 200)), at: place)
        }
      }
      var configuration = Configuration()
      let text = String(decoding: bytes, as: UTF8.self)
      if !configuration.merge(yaml: text, file: "f").isEmpty { refused += 1 }
      _ = configuration.settings
    }
    // Most of the example is comments, where damage does nothing.
    #expect(refused > 100 && refused < 1500)
  }

  @Test(arguments: ["[", "{", "- ", "? ", "a: [", "{a: "])
  func nestingDeeperThanAnyStack(_ opening: String) {
    var configuration = Configuration()
    let yaml = String(repeating: opening, count: 100_000)
    #expect(!configuration.merge(yaml: yaml, file: "f").isEmpty)
  }
}
