import Foundation
import Testing

@testable import CountdownStore
@testable import Countdowns

/// The file in which a host remembers its fleet.
@Suite struct FleetMemoryTests {
  private let directory = TemporaryDirectory()
  private var file: String { directory.path + "/fleet" }
  private let memory = FleetMemory(
    name: "shop.eu",
    partitions: [
      .init(epoch: [0, 9, 255], blockedUntil: 1_790_000_000_000_000),
      .init(epoch: [], blockedUntil: 0),
    ])

  @Test func whatWasWrittenIsRead() throws {
    #expect(try FleetMemory.read(in: directory.path) == nil)
    try memory.write(in: directory.path)
    #expect(try FleetMemory.read(in: directory.path) == memory)
    let many = FleetMemory(
      name: String(repeating: "n", count: 64),
      partitions: Array(
        repeating: .init(epoch: Array(repeating: 7, count: 16), blockedUntil: .max), count: 1_024))
    try many.write(in: directory.path)
    #expect(try FleetMemory.read(in: directory.path) == many)
  }

  @Test func aFileThatWasChangedOrCutOffIsRefused() throws {
    try memory.write(in: directory.path)
    let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: file)))
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 1
      for damaged in [changed, Array(bytes[..<index])] {
        try Data(damaged).write(to: URL(fileURLWithPath: file))
        #expect(throws: StoreError.self) { try FleetMemory.read(in: directory.path) }
      }
    }
  }
}
