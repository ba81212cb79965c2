import CountdownStore
import Glibc

/// The backups of a directory that are named after the time at which they were made.
struct DatedBackups {
  private let directory: String

  init(_ directory: String) {
    self.directory = directory.hasSuffix("/") ? String(directory.dropLast()) : directory
  }

  /// The path of a backup that is made now. Names sort by time.
  var newName: String {
    var now = time(nil)
    var parts = unsafe tm()
    unsafe gmtime_r(&now, &parts)
    var text = [CChar](repeating: 0, count: 64)
    let length = unsafe strftime(&text, text.count, "countdownd-%Y%m%dT%H%M%SZ.db", &parts)
    return directory + "/"
      + String(decoding: text[..<length].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Removes all but the newest ones, and nothing with another name. Returns the removed paths.
  func removeOld(keeping count: Int) throws(Failure) -> [String] {
    let names: [String]
    do {
      names = try SafeFile.names(in: directory)
    } catch {
      throw Failure("cannot list \(directory): \(error.reason)")
    }
    let old = names.filter(Self.isDated).sorted().dropLast(count).map { "\(directory)/\($0)" }
    for path in old {
      guard unsafe unlink(path) == 0 else { throw Failure(system: "cannot remove \(path)") }
    }
    return old
  }

  private static func isDated(_ name: String) -> Bool {
    let digits = name.utf8.map { (48...57).contains($0) ? UInt8(ascii: "0") : $0 }
    return String(decoding: digits, as: UTF8.self) == "countdownd-00000000T000000Z.db"
  }
}
