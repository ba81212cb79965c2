import Glibc

/// What has happened in a state directory over all starts: the file `history`, with a line for each
/// value. Only administrators look at it, so one that cannot be read counts as a new one.
package struct History: Sendable {
  /// How often a daemon has opened the state.
  package var starts: Int64 = 0
  /// How often the daemon before such a start had not ended in order.
  package var uncleanEnds: Int64 = 0
  /// When a client last read a whole copy of the state, in microseconds since 1970; 0 for never.
  package var lastBackup: Int64 = 0
  /// The backup that was restored since the last start; empty if none was.
  package var restored = ""
  private let path: String

  private static let mostBytes = 8_192

  package init(directory: String) {
    path = directory + "/history"
    for line in Self.text(of: path).split(separator: "\n") {
      let parts = line.split(separator: " ", maxSplits: 1)
      guard parts.count == 2 else { continue }
      let number = max(Int64(parts[1]) ?? 0, 0)
      switch parts[0] {
      case "starts": starts = number
      case "unclean-ends": uncleanEnds = number
      case "last-backup": lastBackup = number
      case "restored": restored = String(parts[1])
      default: break
      }
    }
  }

  private static func text(of path: String) -> String {
    // O_NONBLOCK: a pipe at this path must not block.
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    guard StateFiles.isRegularFile(descriptor) else { return "" }
    var bytes = [UInt8](repeating: 0, count: mostBytes)
    let count = unsafe read(descriptor, &bytes, bytes.count)
    return String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
  }

  /// Replaces the file, which belongs to the owner of the directory. Does not wait for the disk: a
  /// power failure may bring an older one back.
  package func write() throws(StoreError) {
    var text = "starts \(starts)\nunclean-ends \(uncleanEnds)\nlast-backup \(lastBackup)\n"
    let line = restored.split(separator: "\n").joined(separator: " ")
    if !line.isEmpty { text += "restored \(line)\n" }
    let partial = path + ".partial"
    let descriptor = unsafe open(
      partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else {
      throw StoreError(systemError: errno, path: partial, doing: "open")
    }
    defer { close(descriptor) }
    var owner = stat()
    if geteuid() == 0, unsafe stat(StateFiles.directory(of: path), &owner) == 0 {
      _ = fchown(descriptor, owner.st_uid, owner.st_gid)
    }
    let bytes = Array(text.utf8)
    let written = unsafe Glibc.write(descriptor, bytes, bytes.count)
    guard written == bytes.count, unsafe rename(partial, path) == 0 else {
      let code = written >= 0 && written < bytes.count ? ENOSPC : errno
      unsafe unlink(partial)
      throw StoreError(systemError: code, path: path, doing: "write")
    }
  }
}
