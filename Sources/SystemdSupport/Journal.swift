import CSystemd
import Glibc

/// The systemd journal, as the destination of this process's log.
package enum Journal {
  /// Whether standard error is the stream that systemd connected to the journal.
  ///
  /// `JOURNAL_STREAM` alone does not prove it: processes inherit it even if their standard error
  /// has been redirected. So its device and inode must be those of the standard error that is open.
  ///
  /// Source: systemd.exec(5), "JOURNAL_STREAM".
  package static func isStandardError() -> Bool {
    guard let value = unsafe getenv("JOURNAL_STREAM") else { return false }
    var file = stat()
    guard unsafe fstat(STDERR_FILENO, &file) == 0 else { return false }
    return unsafe String(cString: value) == "\(file.st_dev):\(file.st_ino)"
  }

  /// Writes an entry with these fields. Returns false if the journal did not accept it.
  ///
  /// Source: sd_journal_sendv(3).
  package static func send(_ fields: [(name: String, value: String)]) -> Bool {
    guard let libsystemd = unsafe libsystemd else { return false }
    var bytes: [UInt8] = []
    var ends: [Int] = []
    for (name, value) in fields {
      bytes += name.utf8
      bytes.append(UInt8(ascii: "="))
      bytes += value.utf8
      ends.append(bytes.count)
    }
    return unsafe bytes.withUnsafeMutableBytes { buffer in
      var begin = 0
      let parts = unsafe ends.map { end in
        defer { begin = end }
        return unsafe iovec(iov_base: buffer.baseAddress! + begin, iov_len: end - begin)
      }
      return unsafe libsystemd.pointee.sd_journal_sendv(parts, Int32(parts.count)) == 0
    }
  }
}
