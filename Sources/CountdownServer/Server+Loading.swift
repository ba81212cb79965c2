import CountdownStore
import Countdowns
import Logging
import NIOCore

/// Reading what was kept, while whoever asks for it is told that it is loading.
extension Server {
  /// How long clients wait at the socket before they are told that it is loading.
  private static let patience = TimeAmount.milliseconds(100)

  /// Succeeds when `loaded` does, or after a short while.
  func soon(_ loaded: EventLoopFuture<Void>) -> EventLoopFuture<Void> {
    let either = loop.makePromise(of: Void.self)
    let late = loop.scheduleTask(in: Self.patience) { either.succeed() }
    loaded.whenComplete { result in
      late.cancel()
      either.completeWith(result)
    }
    return either.futureResult
  }

  /// Reads what was kept; meanwhile whoever asks for it is told that it is loading.
  func load() -> EventLoopFuture<Void> {
    let done = loop.makePromise(of: Void.self)
    loop.execute { [self] in
      guard !isStopping else { return done.fail(StoppedWhileLoading()) }
      guard let store = unread else { return done.succeed() }
      unread = nil
      dispatcher.engine.noteChanges()
      nonisolated(unsafe) let given = store
      let loading = StateLoading(given) { [weak self] portion in
        self?.hop { $0.take(portion) }
      }
      self.loading = loading
      loading.run { [weak self] error in self?.hop { $0.finishLoading(error, done) } }
    }
    return done.futureResult
  }

  private func take(_ portion: StateLoading.Portion) {
    guard let loading else { return }
    // There is always another portion: sockets are looked at first, or nobody would be told anything.
    defer { yieldToSockets { _ in loading.taken() } }
    switch portion {
    case .records(let restore): loading.unreadable += restore(dispatcher.engine, now)
    case .events(let turns):
      for events in turns {
        let isRead = dispatcher.engine.eventLog.restore(
          events.payload, after: events.afterSequence, through: events.lastSequence)
        if !isRead { loading.unreadableEvents += 1 }
      }
    }
    // Whoever is told may be slow to take it.
    if toldOfLoading.map({ now.boot - $0 >= .milliseconds(1_000) }) ?? true {
      toldOfLoading = now.boot
      hooks.isLoading(dispatcher.engine.entityCount)
    }
  }

  private func finishLoading(_ error: StoreError?, _ done: EventLoopPromise<Void>) {
    guard let loading else { return done.succeed() }
    self.loading = nil
    guard !isStopping else {
      loading.close()
      return done.fail(StoppedWhileLoading())
    }
    do throws(StoreError) {
      if let error = error ?? loading.problem {
        guard error.kind == .corrupt else { throw error }
        try replace(loading, error)
      } else {
        nonisolated(unsafe) let given = loading.loaded
        try keep(given)
      }
    } catch {
      return done.fail(error)
    }
    dispatcher.isLoading = false
    if loading.unreadableEvents > 0 {
      logger.warning(
        """
        some of the events that were kept cannot be read, and were left out with those before them; \
        EVENTS SINCE says so to whoever asks for them
        """, metadata: ["turns": "\(loading.unreadableEvents)"])
    }
    logger.info("state loaded", metadata: loadedFacts)
    openBatch()
    done.succeed()
  }

  /// How many of each kind there are.
  private var loadedFacts: Logger.Metadata {
    let kinds = EntityKind.allCases.filter(\.canBeDurable)
    return Dictionary(
      uniqueKeysWithValues: kinds.map { ("\($0.name)s", "\(dispatcher.engine.count($0))") })
  }
}

/// It was asked to end before what was kept had been read.
package struct StoppedWhileLoading: Error {}
