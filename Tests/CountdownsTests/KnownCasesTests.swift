import Foundation
import Testing

/// docs/dev/known-cases.md and the tests name the same cases.
@Suite struct KnownCasesTests {
  /// A test as declared in its source.
  private struct Source {
    var suite: String
    var name: String
    /// The doc comment of a Swift test, or the name of a Python test.
    var text: String
  }

  private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent()

  /// Returns the rows of the page: the cases, and their tests as `Suite.test` or `file.test`.
  private static func rows() throws -> [(cases: [String], tests: [String])] {
    let page = try String(
      contentsOf: tests.deletingLastPathComponent()
        .appendingPathComponent("docs/dev/known-cases.md"),
      encoding: .utf8)
    return page.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasPrefix("| case") }
      .map { line in
        let cells = line.split(separator: "|", omittingEmptySubsequences: false)
        return (
          cells[1].split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
            .filter { !$0.isEmpty },
          cells[3].split(separator: "`").filter { $0.contains(".") }.map(String.init)
        )
      }
  }

  private static func sources() throws -> [Source] {
    let files = try #require(FileManager.default.enumerator(atPath: tests.path))
      .compactMap { $0 as? String }
    var sources: [Source] = []
    for file in files where file.hasSuffix(".swift") || file.hasSuffix(".py") {
      let text = try String(contentsOf: tests.appendingPathComponent(file), encoding: .utf8)
      if file.hasSuffix(".py") {
        let suite = String(file.split(separator: "/").last!.dropLast(3))
        for match in text.matches(of: #/def (test_\w+)\(/#) {
          sources.append(Source(suite: suite, name: "\(match.1)", text: "\(match.1)"))
        }
        continue
      }
      var suite = ""
      let declarations =
        #/(?:struct|class) (?<suite>\w+Tests)\b|(?<comment>(?:///.*\n\s*)*)@Test\b[^{]*?func (?<name>\w+)/#
      for match in text.matches(of: declarations) {
        if let name = match.suite { suite = "\(name)" }
        guard let name = match.name, let comment = match.comment else { continue }
        sources.append(Source(suite: suite, name: "\(name)", text: "\(comment)"))
      }
    }
    return sources
  }

  @Test func everyTestOnThePageExistsAndBearsTheNameOfEachOfItsCases() throws {
    let sources = try Self.sources()
    let rows = try Self.rows()
    #expect(rows.count > 40)
    for row in rows {
      #expect(!row.tests.isEmpty, "\(row.cases)")
      for test in row.tests {
        let source = sources.first { "\($0.suite).\($0.name)" == test }
        guard let source else {
          Issue.record("\(test) is not there")
          continue
        }
        for known in row.cases {
          #expect(source.text.contains(known), "\(test) does not say \(known)")
        }
      }
    }
  }

  @Test func everyCaseThatATestNamesIsOnThePage() throws {
    let known = Set(try Self.rows().flatMap(\.cases))
    // Case names come before the first colon, each a project and a number.
    for source in try Self.sources() {
      let head = source.text.drop { "/ ".contains($0) }.split(
        separator: ":", omittingEmptySubsequences: false)
      guard head.count > 1 else { continue }
      for word in head[0].split(whereSeparator: { " ,()".contains($0) })
      where word.wholeMatch(of: #/[A-Za-z][A-Za-z0-9-]*-\d+/#) != nil {
        #expect(known.contains("\(word)"), "\(source.suite).\(source.name): \(word)")
      }
    }
  }
}
