/// The view of a navigation stack.
package struct StackView: EntityView, Equatable {
  package enum State: String, Sendable { case settled, transitioning, empty }

  package var key: [UInt8]
  package var state: State
  package var generation: Generation
  /// The pages, from the root to the top.
  package var pages: [[UInt8]]
  package var bar: NavigationStack.Bar
  package var transition: NavigationStack.Transition.Kind?
  /// The progress of the transition, from 0 to 1.
  package var fraction: Double?
  /// The time until the transition ends, or the swipe is cancelled for lack of progress.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  /// The occurrence that the view reports, in events only.
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

  package static var blank: StackView { StackView(.blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key, "The stack.")
    writer.field(
      "state", state.rawValue, .choice(["settled", "transitioning", "empty"]),
      "`empty` in snapshots of an unknown key.")
    writer.generation(generation, "New with each swipe, and with each DURATION.")
    writer.answer(
      answer,
      [
        .transitioning, .root, .presented, .disabled, .noPage, .outsideEdge, .direction,
        .notTransitioning,
      ])
    writeDetails(to: &writer)
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, as: .duration().orNull,
      "The time until the transition is over, or the swipe is cancelled; null if neither.")
  }

  /// Writes the fields of the page that the event concerns, then those of the stack.
  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    guard let occurrence else {
      writeDetails(to: &writer)
      writer.field("remaining_ms", remainingMS)
      writer.field("now_unix_ms", nowUnixMS)
      return
    }
    writer.field("page", other: occurrence.page, of: .scope)
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
    writer.field(
      "page", other: pages.last, of: .scope, .key,
      "The page on top; in events, the page that they are about.")
    writer.field("depth", Int64(pages.count), .count, "The number of pages.")
    writer.field("pages", others: pages, of: .scope, "The pages, from the root up.")
    writer.choice("bar", bar, "The navigation bar.")
    writer.choice("transition", transition, "Null unless transitioning.")
    writer.fraction(fraction, "The progress; null unless transitioning.")
  }
}

extension NavigationKind {
  private static let style = Field(
    "style", .choice(NavigationStack.Style.self), "How the page came to the stack.")
  private static let barChanged = Field(
    "bar_changed", .boolean, "Whether the bar of the stack has changed, to `bar`.")

  static let events: [EventDescription] = [
    .init(
      .willAppear, "A page begins to appear.",
      [Field("first", .boolean, "Whether the page comes to the stack."), style]),
    .init(
      .didAppear, "A page has appeared.",
      [Field("first", .boolean, "Whether the page comes to the stack."), style, barChanged]),
    .init(
      .willDisappear, "A page begins to disappear.",
      [Field("last", .boolean, "Whether the page leaves the stack."), style]),
    .init(
      .didDisappear, "A page has disappeared.",
      [Field("last", .boolean, "Whether the page has left the stack."), style]),
    .init(.swiping, "A swipe has begun."),
    .init(.progress, "The progress has changed; a slow reader receives only the newest."),
    .init(.cancelled, "`reason` `timed-out`, or null."),
    .init(.updated, "SET.", [barChanged]),
    .init(.finished, "FINISH, or DURATION is over."), .init(.dismissed, "No page is left."),
  ]
}
