import Foundation
import Testing

@testable import CountdownStore

@Suite struct SafeFileTests {
  private let directory = TemporaryDirectory()

  init() { mkdir(directory.state, 0o700) }

  /// Their status says that they have no bytes.
  @Test func filesOfProcAreRead() throws {
    #expect(try SafeFile.read("/proc/self/statm", atMost: 128).last == UInt8(ascii: "\n"))
    #expect(try SafeFile.read("/proc/sys/kernel/random/boot_id", atMost: 64).count == 37)
  }

  @Test func aPartIsRead() throws {
    let path = directory.state + "/file"
    try SafeFile.write("abcdef", to: path)
    #expect(try SafeFile.read(path) == Array("abcdef".utf8))
    #expect(try SafeFile.read(path, from: 2, atMost: 3) == Array("cde".utf8))
    #expect(try SafeFile.read(path, from: 7, atMost: 3) == [])
    let descriptor = open(path, O_RDONLY)
    defer { close(descriptor) }
    for _ in 0..<2 {
      #expect(try SafeFile.read(descriptor, from: 0, atMost: 2) == Array("ab".utf8))
    }
  }

  @Test func aShorterContentLeavesNothingOfTheOldOne() throws {
    let path = directory.state + "/file"
    try SafeFile.write("abcdef", to: path)
    try SafeFile.write("gh", to: path)
    try SafeFile.write("i", to: path, O_APPEND)
    #expect(try SafeFile.read(path) == Array("ghi".utf8))
    for isSynced in [false, true] {
      try Data(repeating: 1, count: 100).write(to: URL(filePath: path + ".new"))
      try SafeFile.replace(path, with: "j", isSynced: isSynced)
      #expect(try SafeFile.read(path) == Array("j".utf8))
    }
    #expect(try SafeFile.names(in: directory.state) == ["file"])
  }

  @Test(arguments: ["pipe", "link", "folder"])
  func whatIsNoRegularFileIsRefused(name: String) throws {
    let path = directory.state + "/" + name
    mkfifo(directory.state + "/pipe", 0o600)
    symlink("pipe", directory.state + "/link")
    mkdir(directory.state + "/folder", 0o700)
    let failure = #expect(throws: SafeFile.Failure.self) {
      try SafeFile.read(path, atMost: 1, SafeFile.own)
    }
    let error = StoreError(try #require(failure), path: path)
    #expect(error == StoreError(.inaccessible, path, "it is no regular file: remove it"))
    #expect(throws: StoreError.self) { try SafeFile.write("a", to: path) }
  }
}
