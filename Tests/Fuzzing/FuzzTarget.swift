/// One thing that is given input it was not made for.
package protocol FuzzTarget: AnyObject {
  /// On the command line, and of its folder in the corpus.
  static var name: String { get }

  init() throws

  /// The input that a seed stands for: always the same.
  func input(seed: UInt64) -> [UInt8]

  /// Hands it in; throws a `FuzzFailure` if what comes of it is wrong. It also fails by crashing, or
  /// by taking long.
  func check(_ input: [UInt8]) throws
}

package struct FuzzFailure: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

package var fuzzTargets: [any FuzzTarget.Type] {
  [WheelFuzz.self, RequestFuzz.self, ConfigurationFuzz.self, StateFuzz.self]
}

/// Input that has found something. It is never deleted: `make fuzz` and the tests begin with it.
package enum Corpus {
  private static let directory = project + "/Tests/Fuzzing/Corpus"

  /// Names and contents of a target's files, in the order of their names.
  package static func cases(of target: String) throws -> [(name: String, input: [UInt8])] {
    let folder = "\(directory)/\(target)"
    return try Files.names(in: folder).map { ($0, try Files.read("\(folder)/\($0)")) }
  }
}

/// Where the sources are.
let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
  .joined(separator: "/")
