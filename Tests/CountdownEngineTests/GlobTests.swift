import CountdownCore
import Testing

@testable import CountdownEngine

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
