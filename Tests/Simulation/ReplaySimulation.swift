import Countdowns
import SeededRandom

/// A random history of decisions, kept in a journal and played again with the same rules: each
/// decision must be the same, from whichever segment the replay begins.
package final class ReplaySimulation {
  private let seed: UInt64
  private let world: SendingWorld
  private var journal: Countdowns.Journal!
  private var entries: [JournalEntry] = []
  /// What led to each entry.
  private var causes: [String] = []

  package init(seed: UInt64) {
    self.seed = seed
    world = SendingWorld(seed: seed, shadows: false)
    keep(continues: false)
  }

  private func keep(continues: Bool) {
    var settings = Countdowns.Journal.Settings()
    settings.size = .max
    settings.entries = 400 * Countdowns.Journal.segments
    journal = Countdowns.Journal(
      of: world.engine, settings, bootID: "boot", continues: continues)
    world.engine.journal = journal
  }

  package func play(steps: Int) throws(Disagreement) {
    for _ in 0..<steps {
      world.pass()
      switch world.number(0...499) {
      case 0, 1: try restart()
      case 2, 3:
        world.reload()
        journal.noteReload(["policies.p0"], at: world.now)
      case 4...7: world.disconnect()
      default: world.say(world.command())
      }
      try take()
    }
    let segments = entries.indices.filter { entries[$0].what == .segment }
    for first in Set([0, segments.randomElement(using: &world.random)!, segments.last!]) {
      try replay(from: first)
    }
  }

  private func restart() throws(Disagreement) {
    // A daemon that is killed does not close its journal.
    let isInOrder = !world.chance(oneIn: 3)
    if isInOrder { journal.close(at: world.now) }
    try take()
    world.restart()
    keep(continues: isInOrder)
  }

  private func take() throws(Disagreement) {
    for portion in journal.takePending() {
      for bytes in portion.entries {
        guard let entry = JournalEntry(bytes: bytes, offset: 0) else {
          throw disagreement("an entry cannot be read", world.history)
        }
        entries.append(entry)
        causes.append(world.last)
      }
    }
  }

  private func replay(from first: Int) throws(Disagreement) {
    let replay = Replay(world.settings)
    for index in first..<entries.count {
      do throws(Replay.Problem) { try replay.play(entries[index]) } catch {
        throw disagreement("from entry \(first): \(error.text)", "")
      }
      let report = replay.report
      guard report.differing == 0, report.notComparable.isEmpty, report.missing == 0,
        report.undecided.isEmpty
      else {
        throw disagreement(
          "entry \(index), from entry \(first), is \(entries[index].answer), but differs: "
            + "\(report.undecided) \(report.notComparable)", history(first...index))
      }
    }
    replay.finish()
    let decisions = entries[first...].count { $0.what == .decision && $0.kind != .once }
    guard replay.report.decisions == decisions, replay.report.then == replay.report.now else {
      throw disagreement("\(replay.report.decisions) of \(decisions) decisions were played", "")
    }
  }

  /// Returns the entries that are about the same entities as the last one.
  private func history(_ range: ClosedRange<Int>) -> String {
    func keys(_ entry: JournalEntry) -> Set<[UInt8]> {
      Set(
        entry.limits + entry.words.dropFirst(2).prefix(1) + (entry.key.isEmpty ? [] : [entry.key]))
    }
    let last = keys(entries[range.upperBound])
    return range.filter {
      !keys(entries[$0]).isDisjoint(with: last) || [.segment, .closed].contains(entries[$0].what)
    }.suffix(40).map {
      "  \($0) \(entries[$0].what) at \(entries[$0].at.boot.microseconds): \(causes[$0])"
    }.joined(separator: "\n")
  }

  private func disagreement(_ text: String, _ history: String) -> Disagreement {
    Disagreement(description: "replay: seed \(seed): \(text)\n\(history)")
  }
}
