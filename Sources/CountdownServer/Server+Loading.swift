import CountdownStore
import Countdowns
import Logging
import Runtime

extension Server {
  /// Loads the state, and then ends `loading`. Meanwhile commands that need the state are answered
  /// with LOADING.
  func load() {
    guard let store = state.opened else {
      state.loading = .ended(Result { try openJournal() })
      return
    }
    dispatcher.engine.noteChanges()
    nonisolated(unsafe) let given = store
    let loading = unsafe StateLoading(given) { [self] portion in
      runOnLoop { $0.take(portion) }
    }
    state.loading = .underWay(loading)
    loading.run { [self] error in runOnLoop { $0.finishLoading(error) } }
  }

  private func take(_ portion: StateLoading.Portion) {
    guard case .underWay(let loading) = state.loading else { return }
    // The next portions arrive in a later iteration, so sockets are served in between.
    defer { loading.taken() }
    switch portion {
    case .entities(let entities):
      let offset = loading.loaded.clock.offset
      for entry in dispatcher.engine.restore(entities, offset: offset, at: now) {
        loading.refused.note(entry.kind, entry.slot)
      }
    case .events(let turns):
      for events in turns {
        let isRead = dispatcher.engine.eventLog.restore(
          events.payload, after: events.afterSequence, through: events.lastSequence)
        if !isRead { loading.unreadableEvents += 1 }
      }
    }
    // Reports at most once a second: the receiver may be slow.
    if loading.reportedAt.map({ now.boot - $0 >= .milliseconds(1_000) }) ?? true {
      loading.reportedAt = now.boot
      hooks.isLoading(dispatcher.engine.entityCount)
    }
  }

  private func finishLoading(_ error: StoreError?) {
    guard case .underWay(let loading) = state.loading else { return }
    guard ending.phase == .serving else {
      loading.close()
      state.loading = .ended(.failure(StoppedWhileLoading()))
      return
    }
    do throws(StoreError) {
      if let error = error ?? loading.problem {
        guard error.kind == .corrupt else { throw error }
        try replace(loading, error)
      } else {
        nonisolated(unsafe) let given = loading.loaded
        unsafe try keep(given)
      }
      try openJournal()
    } catch {
      state.loading = .ended(.failure(error))
      return
    }
    dispatcher.isLoading = false
    if loading.unreadableEvents > 0 {
      logger.log(
        .eventsLost, .error,
        """
        some of the events that were kept cannot be read, and were left out with those before them; \
        EVENTS SINCE says so to whoever asks for them
        """, ["turns": "\(loading.unreadableEvents)"])
      noteDamage("some events could not be read and are lost")
      // The next start has nothing left to report.
      if let batch = state.writer?.batch {
        batch.append(.none, missingThrough: 0)
        appendEvents(to: batch)
      }
    }
    if dispatcher.engine.hiddenCount > 0 {
      logger.log(
        .fleetHides, .warning,
        """
        the state has entities of kinds that the fleet shares. They are hidden, not lost: a start \
        without the fleet has them again, and `countdownctl fleet import` moves them into the fleet
        """, ["count": "\(dispatcher.engine.hiddenCount)"])
    }
    noteLoaded(loading.loadedFrom)
    openBatch()
    state.loading = .ended(.success(()))
  }

  /// Logs which state was loaded, and what has happened to it.
  private func noteLoaded(_ source: (path: String, savedAt: Int64?)) {
    var facts: Logger.Metadata = [
      "file": .string(source.path), "entities": "\(dispatcher.engine.entityCount)",
    ]
    if let savedAt = source.savedAt {
      let age = Instant(microseconds: startedAt.wall.microseconds) - Instant(microseconds: savedAt)
      facts["age"] = "\(max(age, .zero).text)"
    }
    if let backup = state.history?.restored, !backup.isEmpty {
      logger.log(
        .stateRestored, .notice, "the state was restored from a backup",
        facts.merging(["backup": .string(backup)]) { $1 })
      state.change { $0.restored = "" }
    }
    logger.log(.stateLoaded, .info, "state loaded", facts.merging(loadedFacts) { $1 })
  }

  /// The number of entities of each durable kind.
  private var loadedFacts: Logger.Metadata {
    Dictionary(
      uniqueKeysWithValues: EntityKind.durable.map {
        ("\($0.name)s", "\(dispatcher.engine.count($0))")
      })
  }
}

/// The server was asked to end before it had loaded the state.
package struct StoppedWhileLoading: Error {}
