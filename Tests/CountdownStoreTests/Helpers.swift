import Foundation

/// A small file system in memory, mounted on a directory of its own.
final class SmallDisk {
  static let isPossible = geteuid() == 0

  private let directory = TemporaryDirectory()
  var path: String { directory.path + "/disk" }

  init(kibibytes: Int) throws {
    mkdir(path, 0o700)
    guard mount("tmpfs", path, "tmpfs", 0, "size=\(kibibytes)k") == 0 else {
      throw CocoaError(.featureUnsupported)
    }
  }

  func makeReadOnly() throws {
    guard mount(nil, path, nil, UInt(MS_REMOUNT | MS_RDONLY), nil) == 0 else {
      throw CocoaError(.featureUnsupported)
    }
  }

  deinit { umount2(path, Int32(MNT_DETACH)) }
}

/// Another process, which does something to a directory and then waits to be ended.
final class Python {
  private let process = Process()
  private let input = Pipe()
  var pid: Int32 { process.processIdentifier }

  /// Returns once the program has come to its end.
  init(_ program: String, _ argument: String) throws {
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "python3", "-c", program + "\nprint('ready', flush=True)\nimport sys; sys.stdin.read()\n",
      argument,
    ]
    let output = Pipe()
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    let said = output.fileHandleForReading.availableData
    guard said.starts(with: Data("ready".utf8)) else { throw CocoaError(.executableLoad) }
  }

  func end() {
    try? input.fileHandleForWriting.close()
    process.waitUntilExit()
  }

  deinit { end() }
}
