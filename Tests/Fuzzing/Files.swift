import Glibc

/// File access for the targets. Like the daemon, it does not use Foundation.
enum Files {
  static func read(_ path: String) throws -> [UInt8] {
    guard let file = fopen(path, "r") else { throw failure("read", path) }
    defer { fclose(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while case let count = fread(&buffer, 1, buffer.count, file), count > 0 {
      bytes += buffer[..<count]
    }
    return bytes
  }

  static func write(_ bytes: [UInt8], to path: String) throws {
    guard let file = fopen(path, "w") else { throw failure("write", path) }
    let written = fwrite(bytes, 1, bytes.count, file)
    guard fclose(file) == 0, written == bytes.count else { throw failure("write", path) }
  }

  /// Returns the names in a directory, sorted; none if there is no such directory.
  static func names(in directory: String) -> [String] {
    guard let stream = opendir(directory) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { $0.prefix { $0 != 0 } }
      names.append(String(decoding: name, as: UTF8.self))
    }
    return names.filter { $0 != "." && $0 != ".." }.sorted()
  }

  /// Creates an empty directory, in memory if possible: no target tests the disk.
  static func makeTemporaryDirectory() throws -> String {
    let parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"
    var template = Array("\(parent)/countdownd-fuzz-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw failure("make a directory in", parent) }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  static func removeFiles(in directory: String) {
    for name in names(in: directory) { unlink("\(directory)/\(name)") }
  }

  private static func failure(_ what: String, _ path: String) -> FuzzFailure {
    FuzzFailure("cannot \(what) \(path): \(String(cString: strerror(errno)))")
  }
}
