/// What is reported of a navigation stack.
package struct StackView: EntityView, Equatable {
  package enum State: String, Sendable { case settled, transitioning, empty }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// From the root to the top.
  package var pages: [[UInt8]]
  package var bar: NavigationStack.Bar
  package var transition: NavigationStack.Transition.Kind?
  /// How far the transition is.
  package var fraction: Double?
  /// Until the transition is over, or the swipe is cancelled without further progress.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  /// In events.
  package var occurrence: NavigationStack.Occurrence?

  package var kind: EntityKind { .nav }
  package var isDurable: Bool { false }

  init(_ entity: StackEntity, at now: Moment) {
    self.init(entity.key, entity.machine, entity.generation, at: now)
  }

  init(
    _ key: [UInt8], _ machine: NavigationStack, _ generation: Generation,
    _ occurrence: NavigationStack.Occurrence? = nil, at now: Moment
  ) {
    self.key = key
    self.generation = generation
    self.occurrence = occurrence
    state =
      machine.transition != nil ? .transitioning : machine.pages.isEmpty ? .empty : .settled
    pages = machine.pages.map(\.scope.key)
    bar = machine.bar
    transition = machine.transition?.kind
    fraction = machine.transition?.fraction
    let until = machine.nextExpiry
    remainingMS = until.map(now.milliseconds(until:))
    deadlineUnixMS = until.map(now.unixMilliseconds(of:))
    nowUnixMS = now.unixMilliseconds
  }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.field("key", bytes: key)
    writer.field("state", state.rawValue)
    writer.field("generation", generation.value)
    answer?.write(to: &writer)
    writeDetails(to: &writer)
    writer.time(left: remainingMS, until: deadlineUnixMS, now: nowUnixMS)
  }

  /// Of the page that the event is about, then of the stack.
  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    guard let occurrence else {
      writeDetails(to: &writer)
      writer.field("remaining_ms", remainingMS)
      writer.field("now_unix_ms", nowUnixMS)
      return
    }
    writer.field("page", bytes: occurrence.page)
    switch occurrence.event {
    case .willAppear:
      writer.field("first", occurrence.isMoving)
      writer.field("style", occurrence.style.rawValue)
      writer.field("bar", occurrence.bar.rawValue)
    case .didAppear:
      writer.field("first", occurrence.isMoving)
      writer.field("style", occurrence.style.rawValue)
      writer.field("bar", occurrence.bar.rawValue)
      writer.field("bar_changed", occurrence.changesBar)
    case .willDisappear, .didDisappear:
      writer.field("last", occurrence.isMoving)
      writer.field("style", occurrence.style.rawValue)
      writer.field("bar", occurrence.bar.rawValue)
    case .updated:
      writer.field("bar", occurrence.bar.rawValue)
      writer.field("bar_changed", occurrence.changesBar)
    case .swiping, .progress:
      writer.field("fraction", fraction)
      writer.field("remaining_ms", remainingMS)
      writer.field("deadline_unix_ms", deadlineUnixMS)
    case .finished, .cancelled, .timedOut, .dismissed:
      break
    }
    writer.field("depth", Int64(pages.count))
    writer.field("now_unix_ms", nowUnixMS)
  }

  private func writeDetails(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("page", bytes: pages.last)
    writer.field("depth", Int64(pages.count))
    writer.field("pages", list: pages)
    writer.field("bar", bar.rawValue)
    writer.field("transition", transition?.rawValue)
    writer.field("fraction", fraction)
  }
}
