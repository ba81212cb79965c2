import Glibc

/// What was found damaged or lost in a state directory, until an administrator acknowledges it. The
/// file `damage` keeps it over restarts, one finding on each line.
package struct DamageRecord {
  /// Findings in the order in which they were made, each with the time of the wall clock.
  package private(set) var findings: [String]
  private let path: String

  /// The most findings that are kept: the first ones say what has happened.
  private static let maximum = 16
  private static let maximumBytes = 1 << 16

  /// Reads the findings of a state directory, which need not exist.
  package init(directory: String) throws(StoreError) {
    path = directory + "/damage"
    let bytes: [UInt8]
    do {
      bytes = try SafeFile.read(path, atMost: Self.maximumBytes, SafeFile.own)
    } catch {
      guard [ENOENT, ENOTDIR].contains(error.code) else { throw StoreError(error, path: path) }
      findings = []
      return
    }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    // An empty file was to have a finding, too.
    findings =
      lines.isEmpty ? ["something that the file \(path) does not say"] : lines.map(String.init)
  }

  /// Adds a finding, and writes it to the disk. Keeps it in memory even if it throws.
  package mutating func note(
    _ finding: String, atUnixMicroseconds now: Int64
  ) throws(StoreError) {
    guard findings.count < Self.maximum else { return }
    let time = StateFiles.stamp(now)
    let line = "\(time) \(finding.split(separator: "\n").joined(separator: " "))"
    findings.append(line)
    try SafeFile.write(line + "\n", to: path, O_APPEND)
  }

  /// Removes all findings.
  package mutating func acknowledge() throws(StoreError) {
    guard unsafe unlink(path) == 0 || errno == ENOENT else {
      throw StoreError(systemError: errno, path: path, doing: "remove")
    }
    try StateFiles.synchronizeDirectory(of: path)
    findings = []
  }
}
