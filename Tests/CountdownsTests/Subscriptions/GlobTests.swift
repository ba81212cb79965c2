import SeededRandom
import Testing

@testable import Countdowns

@Suite struct GlobTests {
  private func matches(_ pattern: String, _ text: String) -> Bool {
    Glob.matches(Array(pattern.utf8), Array(text.utf8))
  }

  @Test func patternsMatchAsInRedis() {
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

  @Test func aPathologicalPatternDoesNotTakeExponentialTime() {
    let pattern = String(repeating: "a*", count: 400) + "b"
    let text = String(repeating: "a", count: 1_000)
    // With exponential time, it would never end.
    #expect(!matches(pattern, text))
  }

  @Test(arguments: 0..<10)
  func randomPatternsAgreeWithARecursiveMatcher(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    func word(_ parts: [String], _ maximum: Int) -> [String] {
      (0..<Int.random(in: 0...maximum, using: &generator)).map { _ in
        parts.randomElement(using: &generator)!
      }
    }
    for _ in 0..<500 {
      let pattern = word(["a", "a", "b", "*", "*", "?", "[a-c]", "[^a]", "[b", "\\a"], 6)
      let isBroken = pattern.dropLast().contains("[b")
      let text = word(["a", "a", "b", "d"], 7)
      guard !isBroken else { continue }
      #expect(
        matches(pattern.joined(), text.joined()) == model(pattern[...], text[...]),
        "\(pattern) \(text)")
    }
  }

  private func model(_ pattern: ArraySlice<String>, _ text: ArraySlice<String>) -> Bool {
    guard let first = pattern.first else { return text.isEmpty }
    if first == "*" {
      if model(pattern.dropFirst(), text) { return true }
      return !text.isEmpty && model(pattern, text.dropFirst())
    }
    guard let byte = text.first else { return false }
    let fits =
      switch first {
      case "?": true
      case "[a-c]": byte != "d"
      case "[^a]": byte != "a"
      case "[b": byte == "b"
      case "\\a": byte == "a"
      default: byte == first
      }
    return fits && model(pattern.dropFirst(), text.dropFirst())
  }
}
