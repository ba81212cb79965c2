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

  private static let maximumBytes = 8_192

  package init(directory: String) {
    path = directory + "/history"
    let bytes = try? SafeFile.read(path, atMost: Self.maximumBytes, SafeFile.own)
    for line in String(decoding: bytes ?? [], as: UTF8.self).split(separator: "\n") {
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

  /// Replaces the file. Does not wait for the disk.
  package func write() throws(StoreError) {
    var text = "starts \(starts)\nunclean-ends \(uncleanEnds)\nlast-backup \(lastBackup)\n"
    let line = restored.split(separator: "\n").joined(separator: " ")
    if !line.isEmpty { text += "restored \(line)\n" }
    try SafeFile.replace(path, with: text, isSynced: false)
  }
}
