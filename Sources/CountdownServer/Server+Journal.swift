import COpenSSL
import CountdownFleet
import CountdownStore
import Countdowns
import Logging
import Runtime

/// Keeps the journal of decisions: the engine makes entries, a thread writes them.
extension Server {
  struct JournalKeeping {
    var files: JournalFiles?
    /// How many entries could not be kept since the start, besides those that `files` counts.
    var lost = 0
    var fails = false
  }

  private var engine: Engine { dispatcher.engine }

  /// Opens the journal, if there is to be one.
  func openJournal() throws(StoreError) {
    guard settings.journal.isOn else { return }
    let files = try JournalFiles(
      settings.journalDirectory, bytes: settings.journal.size, entries: settings.journal.entries)
    let isSame = state.writer != nil && files.endsInOrder(bootID: state.start.bootID)
    try begin(files, continues: isSame)
  }

  private func begin(_ files: JournalFiles, continues: Bool) throws(StoreError) {
    let journal = settings.journal
    var hash: (([UInt8]) -> [UInt8])?
    if journal.keys == .hmac {
      guard let keyed = KeyedHash(journal.secret) else {
        throw StoreError(
          .inaccessible, settings.journalDirectory,
          "journal.keys hmac needs OpenSSL 3; install libssl.so.3 (Debian: libssl3)")
      }
      hash = { keyed($0) }
    }
    self.journal.files = files
    engine.journal = Journal(
      of: engine, journal, bootID: state.start.bootID, continues: continues, hash: hash)
  }

  /// Takes new settings. Other keys, and a journal that was off, begin without what was known.
  func reloadJournal(from old: ServerSettings) {
    let new = settings.journal
    guard new.isOn else {
      closeJournal()
      return
    }
    do throws(StoreError) {
      if let files = journal.files {
        files.reload(bytes: new.size, entries: new.entries)
        if (new.keys, new.secret) != (old.journal.keys, old.journal.secret) {
          keepJournal()
          try begin(files, continues: false)
        }
      } else {
        try begin(
          try JournalFiles(settings.journalDirectory, bytes: new.size, entries: new.entries),
          continues: false)
      }
    } catch {
      engine.journal = nil
      noteJournal(fails: "\(error)")
    }
    engine.journal?.reload(new)
    let before = Dictionary(old.shown.map { ($0.name, $0.value) }) { $1 }
    let changed = settings.shown.filter { before[$0.name] != $0.value }.map(\.name)
    engine.journal?.noteReload(changed, at: now)
    openBatch()
  }

  /// Hands new entries to the thread that writes them.
  func keepJournal() {
    guard let files = journal.files, let entries = engine.journal?.takePending(), !entries.isEmpty
    else { return }
    journal.lost += engine.journal?.takeDropped() ?? 0
    if let lost = files.append(entries) { engine.journal?.startOver(lost: lost) }
    noteJournal(fails: files.facts.problem)
  }

  private func noteJournal(fails problem: String?) {
    guard (problem != nil) != journal.fails else { return }
    journal.fails = problem != nil
    if let problem {
      logger.log(
        .journalFails, .error,
        "the journal of decisions cannot be written, so decisions are made but not kept: \(problem)"
      )
    } else {
      logger.log(
        .journalWorks, .notice, "the journal of decisions is written again",
        ["lost": "\(lostEntries)"])
    }
  }

  func closeJournal() {
    engine.journal?.close(at: now)
    keepJournal()
    engine.journal = nil
    journal.files?.close()
    journal.lost = lostEntries
    journal.files = nil
  }

  package func readJournal(at position: Int64, count: Int) throws(StateError) -> JournalPart {
    guard let files = journal.files else {
      throw StateError("ERR there is no journal; set journal.size in the configuration")
    }
    do throws(StoreError) {
      var part = try files.read(at: position, count: count)
      if part.bytes.isEmpty { part.lost += engine.journal?.lost ?? 0 }
      return part
    } catch {
      throw StateError("ERR \(error)")
    }
  }

  // MARK: Figures

  private var lostEntries: Int { journal.lost + (journal.files?.facts.lost ?? 0) }

  var journalFigures: [Figure] {
    guard let facts = journal.files?.facts else { return [.init("journal", "0")] }
    return [
      .init("journal", "1"),
      .init("journal_bytes", facts.bytes, .gauge, "Size of the journal of decisions."),
      .init("journal_entries", facts.entries, .gauge, "Entries of the journal."),
      .init("journal_lost_entries", lostEntries, .counter, "Entries that could not be kept."),
      .init(
        "journal_last_error", if: facts.problem != nil, as: "journal_fails",
        "1 while the journal cannot be written.", shown: facts.problem ?? ""),
    ]
  }
}
