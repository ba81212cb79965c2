import Glibc

/// What was found damaged or lost in a state directory, until an administrator acknowledges it. The
/// file `damage` keeps it over restarts, one finding on each line.
package struct DamageRecord {
  /// Findings in the order in which they were made, each with the time of the wall clock.
  package private(set) var findings: [String]
  private let path: String

  /// The most findings that are kept: the first ones say what has happened.
  private static let most = 16
  private static let mostBytes = 1 << 16

  /// Reads the findings of a state directory, which need not exist.
  package init(directory: String) throws(StoreError) {
    path = directory + "/damage"
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else {
      guard [ENOENT, ENOTDIR].contains(errno) else {
        throw StoreError(systemError: errno, path: path, doing: "open")
      }
      findings = []
      return
    }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: Self.mostBytes)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    guard count >= 0 else { throw StoreError(systemError: errno, path: path, doing: "read") }
    let lines = String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n")
    // An empty file was to have a finding, too.
    findings =
      lines.isEmpty ? ["something that the file \(path) does not say"] : lines.map(String.init)
  }

  /// Adds a finding, and writes it to the disk. Keeps it in memory even if it throws.
  package mutating func note(
    _ finding: String, atUnixMicroseconds now: Int64
  ) throws(StoreError) {
    guard findings.count < Self.most else { return }
    let time = StateFiles.stamp(now)
    let line = "\(time) \(finding.split(separator: "\n").joined(separator: " "))"
    findings.append(line)
    let descriptor = unsafe open(
      path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: path, doing: "open") }
    defer { close(descriptor) }
    let bytes = Array((line + "\n").utf8)
    let written = unsafe write(descriptor, bytes, bytes.count)
    guard written == bytes.count else {
      throw StoreError(systemError: written < 0 ? errno : ENOSPC, path: path, doing: "write")
    }
    guard fsync(descriptor) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "fsync")
    }
    try StateFiles.synchronizeDirectory(of: path)
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
