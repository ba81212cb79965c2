import Countdowns
import Glibc

/// What a host remembers of its fleet, in the file `fleet` beside the database.
///
///     fleet 1 NAME
///     EPOCH BLOCKED-UNTIL        one line for each partition; the epoch is hexadecimal, or -
///     sum CHECKSUM
extension FleetMemory {
  private static let title = "fleet 1 "
  private static let maximumBytes = 1 << 17

  private static func path(in directory: String) -> String { directory + "/fleet" }

  /// Reads the file of a state directory; nil if there is none.
  package static func read(in directory: String) throws(StoreError) -> FleetMemory? {
    let path = path(in: directory)
    let bytes: [UInt8]
    do throws(SafeFile.Failure) {
      bytes = try SafeFile.read(path, atMost: maximumBytes, SafeFile.own)
    } catch {
      if [ENOENT, ENOTDIR].contains(error.code) { return nil }
      throw StoreError(error, path: path, doing: "read")
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
    try SafeFile.replace(Self.path(in: directory), with: text, isSynced: true)
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
