import Glibc

/// Notices when files that are open are no more where the next start will look for them: moved,
/// removed, or replaced by others.
struct FilesInPlace {
  private struct File: Equatable {
    var path: String
    var device: dev_t
    var inode: ino_t

    init(_ path: String) throws(StoreError) {
      var status = stat()
      guard stat(path, &status) == 0 else {
        throw StoreError(.moved, path, String(cString: strerror(errno)))
      }
      self.path = path
      device = status.st_dev
      inode = status.st_ino
    }
  }

  private static let intervalMicroseconds: Int64 = 1_000_000
  private let files: [File]
  private var nextLook: Int64 = .min

  init(_ paths: [String]) throws(StoreError) {
    files = try paths.map { (path) throws(StoreError) in try File(path) }
  }

  /// Looks once a second; each time while something is amiss.
  mutating func check(atBootMicroseconds now: Int64) throws(StoreError) {
    guard now >= nextLook else { return }
    for file in files where try File(file.path) != file {
      throw StoreError(.moved, file.path, "another file is there")
    }
    nextLook = now &+ Self.intervalMicroseconds
  }
}
