import Glibc

/// Where this process's log lines end up.
package enum Journal {
  /// Whether standard error is the stream that systemd connected to the journal.
  ///
  /// `JOURNAL_STREAM` alone does not say so: it is inherited by processes whose standard error
  /// has been redirected since. So its device and inode are compared with what is open now.
  ///
  /// Source: systemd.exec(5), "JOURNAL_STREAM".
  package static func isStandardError() -> Bool {
    guard let value = getenv("JOURNAL_STREAM") else { return false }
    var file = stat()
    guard fstat(STDERR_FILENO, &file) == 0 else { return false }
    return String(cString: value) == "\(file.st_dev):\(file.st_ino)"
  }
}
