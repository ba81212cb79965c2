import Countdowns
import Glibc

/// What a host remembers of its fleet, in the file `fleet` beside the database.
///
///     fleet 1 NAME
///     EPOCH BLOCKED-UNTIL        one line for each partition; the epoch is hexadecimal, or -
///     sum CHECKSUM
extension FleetMemory {
  private static let title = "fleet 1 "
  private static let mostBytes = 1 << 17

  private static func path(in directory: String) -> String { directory + "/fleet" }

  /// Reads the file of a state directory; nil if there is none.
  package static func read(in directory: String) throws(StoreError) -> FleetMemory? {
    let path = path(in: directory)
    var status = stat()
    // A pipe at this path must not block.
    if unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
      throw StoreError(.inaccessible, path, "it is no regular file: remove it")
    }
    let bytes: [UInt8]
    do throws(FileContents.Failure) {
      bytes = try FileContents.read(path, atMost: mostBytes)
    } catch {
      if [ENOENT, ENOTDIR].contains(error.code) { return nil }
      throw StoreError(systemError: error.code, path: path, doing: "read")
    }
    guard let memory = FleetMemory(bytes) else {
      throw StoreError(.corrupt, path, "it makes no sense")
    }
    return memory
  }

  private init?(_ bytes: [UInt8]) {
    var lines = String(decoding: bytes, as: UTF8.self).split(
      separator: "\n", omittingEmptySubsequences: false)
    guard lines.count >= 3, lines.popLast() == "", let sum = lines.popLast(),
      lines[0].hasPrefix(Self.title)
    else { return nil }
    guard sum == Self.sum(of: lines.joined(separator: "\n") + "\n") else { return nil }
    let partitions = lines.dropFirst().map { line -> Partition? in
      let words = line.split(separator: " ")
      guard words.count == 2, let blockedUntil = Int64(words[1]),
        let epoch = words[0] == "-" ? [] : Self.bytes(words[0])
      else { return nil }
      return Partition(epoch: epoch, blockedUntil: blockedUntil)
    }
    guard !partitions.contains(nil) else { return nil }
    self.init(
      name: String(lines[0].dropFirst(Self.title.count)), partitions: partitions.compactMap { $0 })
  }

  /// Replaces the file, on the disk.
  package func write(in directory: String) throws(StoreError) {
    var text = "\(Self.title)\(name)\n"
    for partition in partitions {
      let epoch = partition.epoch.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
      text += "\(epoch.isEmpty ? "-" : epoch) \(partition.blockedUntil)\n"
    }
    text += Self.sum(of: text) + "\n"
    let (path, new) = (Self.path(in: directory), Self.path(in: directory) + ".new")
    let descriptor = unsafe open(
      new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
    guard descriptor >= 0 else { throw StoreError(systemError: errno, path: new, doing: "open") }
    let bytes = Array(text.utf8)
    let written = unsafe Glibc.write(descriptor, bytes, bytes.count)
    var code = written == bytes.count ? 0 : written < 0 ? errno : ENOSPC
    if code == 0, fsync(descriptor) != 0 { code = errno }
    close(descriptor)
    guard code == 0 else { throw StoreError(systemError: code, path: new, doing: "write") }
    guard unsafe rename(new, path) == 0 else {
      throw StoreError(systemError: errno, path: path, doing: "rename")
    }
    try StateFiles.synchronize(directory)
  }

  private static func sum(of text: String) -> String {
    "sum \(CRC32C.checksum(Array(text.utf8)[...]))"
  }

  private static func bytes(_ digits: Substring) -> [UInt8]? {
    let digits = Array(digits.utf8)
    let bytes = stride(from: 0, to: digits.count, by: 2).map {
      UInt8(String(decoding: digits[$0..<min($0 + 2, digits.count)], as: UTF8.self), radix: 16)
    }
    return bytes.contains(nil) ? nil : bytes.compactMap { $0 }
  }
}
