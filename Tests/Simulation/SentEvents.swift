import Countdowns

/// An event that was sent, with the view that it reports.
@dynamicMemberLookup
package struct SentEvent {
  package let head: Event.Head
  package let subject: any EntityView
  package let kind: EntityKind
  package let key: [UInt8]
  package let audience: Audience

  package subscript<T>(dynamicMember path: KeyPath<Event.Head, T>) -> T { head[keyPath: path] }
}

/// Collects the events of an engine.
package final class SentEvents: EventObserver {
  private var events: [SentEvent] = []

  package init() {}

  package func observe(
    _ head: Event.Head, _ view: some EntityView, _ kind: EntityKind, _ key: Span<UInt8>,
    to audience: Audience
  ) {
    precondition(
      head.name == .snapshot || kind.behavior.events.contains { $0.name == head.name },
      "the schema lists no event \(head.name) of a \(kind)")
    events.append(
      SentEvent(
        head: head, subject: view, kind: kind,
        key: key.withUnsafeBufferPointer { unsafe Array($0) }, audience: audience))
  }

  func take() -> [SentEvent] {
    defer { events = [] }
    return events
  }
}
