/// The view of a page.
package struct PageView: ViewOfEntity, Equatable {
  package var key: [UInt8]
  package var state: PageLoad.State
  package var generation: Generation
  package var isAnimated: Bool
  package var isVisible: Bool
  package var items: Int64?
  package var message: [UInt8]?
  package var screen: [UInt8]
  /// The time until the load times out; nil without a timeout.
  package var remainingMS: Int64?
  package var deadlineUnixMS: Int64?
  package var nowUnixMS: Int64
  package var owner: Owner

  package var kind: EntityKind { .page }
  package var isDurable: Bool { false }

  init(_ entity: PageEntity, at now: Moment) {
    key = entity.key
    let machine = entity.machine
    state = machine.state
    generation = entity.generation
    isAnimated = machine.isAnimated
    isVisible = machine.isVisible
    items = machine.items
    message = machine.message
    screen = entity.options.screen
    let deadline = machine.deadline
    remainingMS = deadline.map(now.milliseconds(until:))
    deadlineUnixMS = deadline.map(now.unixMilliseconds(of:))
    nowUnixMS = now.unixMilliseconds
    owner = entity.owner
  }

  package static var blank: PageView { PageView(.blank, at: .zero) }

  package func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer?) {
    writer.key(key)
    writer.generation(generation, "New with each load.")
    writer.answer(answer, [.notLoading, .notFailed, .loading])
    writeState(to: &writer)
    writePlace(to: &writer)
  }

  package func writeEvent(_ name: Event.Name, to writer: inout some FieldWriter & ~Copyable) {
    guard name != .closed else { return writer.over("unknown", at: nowUnixMS) }
    writeState(to: &writer)
    if name == .failed { writer.field("error_page", state == .error) }
    if name == .snapshot { writePlace(to: &writer) }
  }

  private func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field(
      "state", state.rawValue,
      .choice(["loading", "content", "empty", "refreshing", "error", "unknown"]),
      "`unknown` in snapshots of an unknown key.")
    writer.field("animated", isAnimated, "Whether the load is to be seen.")
    writer.field("visible", isVisible, "Whether the page is on the screen.")
    writer.field("items", items, .count.orNull, "ITEMS; null if not given.")
    writer.field(
      "message", bytes: message, .text().orNull,
      "MESSAGE of the last load that ended; null if not given.")
    writer.time(
      left: remainingMS, until: deadlineUnixMS, now: nowUnixMS, as: .duration().orNull,
      "The time until the load fails; null if none is.")
  }

  private func writePlace(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("screen", other: screen, of: .hud, .key, "The screen of its HUD.")
    writer.owner(owner)
  }
}

extension PageKind {
  static let events: [EventDescription] = [
    .init(.didAppear, "It is fully visible."), .init(.loading, "A load has begun."),
    .init(.loaded, "LOADED."), .init(.didDisappear, "It is no longer visible."),
    .init(
      .failed, "`reason` `timed-out` for timeouts.",
      [Field("error_page", .boolean, "Whether to show the error page.")]),
    .init(.closed, "`reason` `closed` (CLOSE) or `owner-gone`."),
  ]
}
