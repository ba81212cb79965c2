import Foundation
import Testing

@testable import CountdownStore

/// What the file `history` keeps over starts.
@Suite struct HistoryTests {
  private let directory = TemporaryDirectory()

  @Test(arguments: [
    ("/backups/one.db", "/backups/one.db"), ("two\nlines", "two lines"), ("\n", ""), ("", ""),
  ])
  func isReadAsItWasWritten(restored: String, line: String) throws {
    mkdir(directory.state, 0o700)
    var history = History(directory: directory.state)
    (history.starts, history.uncleanEnds, history.lastBackup) = (3, 2, 1)
    history.restored = restored
    try history.write()
    let found = History(directory: directory.state)
    #expect((found.starts, found.uncleanEnds, found.lastBackup) == (3, 2, 1))
    #expect(found.restored == line)
  }
}
