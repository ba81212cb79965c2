import CountdownStore
import Countdowns
import Dispatch
import Glibc

/// A state with something of everything that is stored.
package enum GoldenState {
  /// Makes the state as `kill -9` leaves it: partly in the database, partly in the log.
  package static func make(in directory: String) throws {
    var settings = EngineSettings()
    settings.policies = RequestFuzz.policies
    settings.throttles = RequestFuzz.throttles
    settings.maximumLevel = .alert
    let talk = Conversation(seed: 1, settings, movesTime: false)
    talk.dispatcher.engine.noteChanges()
    func reading() -> StoreClock.Reading {
      StoreClock.Reading(
        bootID: "golden", bootMicroseconds: talk.now.boot.microseconds,
        wallMicroseconds: talk.now.wall.microseconds)
    }
    var options = Store.Options(directory: directory, durability: .process, product: "golden")
    options.segmentSize = 32_768
    nonisolated(unsafe) let store = try Store(options, at: reading())
    let writer = try StoreWriter(
      store, eventsAfter: 1, at: reading(), execute: { $0() },
      failed: { print($0) })
    for round in 0..<3 {
      for line in StateFuzz.lasting {
        talk.receive(Array("\(line.replacing("#", with: "\(round)"))\r\n".utf8))
      }
      talk.pass(700)
      talk.dispatcher.engine.takeChanges(into: writer.batch)
      writer.commit(at: reading()) {}
      guard round == 1 else { continue }
      // A backup folds all of the log.
      let isFolded = DispatchSemaphore(value: 0)
      writer.backUp(to: directory + "/copy", at: nil) { _ in isFolded.signal() }
      isFolded.wait()
      unlink(directory + "/copy")
    }
    writer.close(at: reading())
  }
}
