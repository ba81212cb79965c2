import CountdownStore
import Countdowns
import Foundation
import Fuzzing
import Testing

/// States that releases have written, each in a folder of Golden named after the release, as
/// `kill -9` leaves them. `views` has what the release listed of them. All can still be read.
///
/// `GOLDEN=Tests/FuzzingTests/Golden/1.2.3 swift test --filter GoldenTests` makes that of a release.
@Suite struct GoldenTests {
  private static let golden = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "Golden")
  private static let releases = Result {
    try FileManager.default.contentsOfDirectory(atPath: golden.path)
  }

  init() throws {
    guard let folder = ProcessInfo.processInfo.environment["GOLDEN"],
      !FileManager.default.fileExists(atPath: folder)
    else { return }
    try GoldenState.make(in: folder)
    try Data(Self.views(folder)).write(to: URL(filePath: folder + "/views"))
    for name in ["lock", "state-1.db-journal"] {
      try FileManager.default.removeItem(atPath: folder + "/" + name)
    }
  }

  private static func views(_ folder: String) throws -> [UInt8] {
    let state = try StateInspection(folder, isThorough: true)
    #expect(state.problems == [])
    return EntityKind.durable.flatMap { kind in
      var query = ListQuery()
      query.limit = 1_000
      return state.engine.replies(listing: kind, query, at: state.now).replies
    }
  }

  @Test func stateOfEachReleaseIsReadAsItWasWritten() throws {
    let releases = try Self.releases.get()
    #expect(!releases.isEmpty)
    for release in releases {
      let folder = Self.golden.appending(path: release)
      let copy = NSTemporaryDirectory() + "golden-\(UUID().uuidString)"
      try FileManager.default.copyItem(atPath: folder.path, toPath: copy)
      defer { try? FileManager.default.removeItem(atPath: copy) }
      let views = try Self.views(copy)
      #expect(Data(views) == (try Data(contentsOf: folder.appending(path: "views"))), "\(release)")
      for kind in EntityKind.durable {
        let count = try StateInspection(copy, isThorough: false).engine.count(kind)
        #expect(count > 0, "\(release) has no \(kind.name)")
      }
    }
  }
}
