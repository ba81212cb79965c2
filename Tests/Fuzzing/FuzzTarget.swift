/// A component that is tested with random and damaged input.
package protocol FuzzTarget: AnyObject {
  /// The name on the command line, and of the folder in the corpus.
  static var name: String { get }

  init() throws

  /// Returns the input for a seed: always the same.
  func input(seed: UInt64) -> [UInt8]

  /// Processes an input; throws a `FuzzFailure` if the result is wrong. A crash or a long run is a
  /// failure, too.
  func check(_ input: [UInt8]) throws
}

package struct FuzzFailure: Error, CustomStringConvertible {
  package let description: String
  package init(_ description: String) { self.description = description }
}

package var fuzzTargets: [any FuzzTarget.Type] {
  [WheelFuzz.self, RequestFuzz.self, ConfigurationFuzz.self, StateFuzz.self, TransferFuzz.self]
}

/// Inputs with something of everything, and those that found a defect, which are never deleted:
/// `make fuzz` and the tests begin with them.
package enum Corpus {
  private static let directory = project + "/Tests/Fuzzing/Corpus"

  /// Returns the names and contents of a target's files, sorted by name.
  package static func cases(of target: String) throws -> [(name: String, input: [UInt8])] {
    let folder = "\(directory)/\(target)"
    return try Files.names(in: folder).map { ($0, try Files.read("\(folder)/\($0)")) }
  }
}

/// The root directory of the project.
let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
  .joined(separator: "/")
