import Wire

/// Events on their way to subscribers, in the order in which they happened.
package struct Outbox: Sendable {
  private enum Entry: Sendable {
    case publication(Int)
    case timed(Timed)
    case written(Int)
  }

  private struct Timed: Sendable {
    var event: TimedEvent
    var audience: Int
    /// Where its key begins in `texts`; its title follows.
    var key: Int
    var keyLength: Int
    var titleLength: Int?
  }

  private var entries: [Entry] = []
  private var publications: [Publication] = []
  private var audiences: [Audience] = []
  private var written: [WrittenEvent] = []
  private var texts: [UInt8] = []

  package init() {}

  package var isEmpty: Bool { entries.isEmpty }

  mutating func append(_ publication: Publication) {
    entries.append(.publication(publications.count))
    publications.append(publication)
  }

  mutating func append(_ event: WrittenEvent) {
    entries.append(.written(written.count))
    written.append(event)
  }

  mutating func append(
    _ event: TimedEvent, key: Span<UInt8>, title: [UInt8]?, to audience: Audience
  ) {
    if audiences.last !== audience { audiences.append(audience) }
    let timed = Timed(
      event: event, audience: audiences.count - 1, key: texts.count, keyLength: key.count,
      titleLength: title?.count)
    texts.append(contentsOf: key)
    if let title { texts.append(contentsOf: title) }
    entries.append(.timed(timed))
  }

  /// Removes all events. Keeps the memory for the next ones, unless there were many.
  package mutating func removeAll() {
    guard entries.count <= 1_024 else {
      self = Outbox()
      return
    }
    entries.removeAll(keepingCapacity: true)
    publications.removeAll(keepingCapacity: true)
    written.removeAll()
    audiences.removeAll(keepingCapacity: true)
    texts.removeAll(keepingCapacity: true)
  }

  /// Hands out the events one by one. Key and title are lent for the duration of the call.
  package func forEach(
    _ publication: (Publication) -> Void,
    timed: (TimedEvent, _ key: Span<UInt8>, _ title: Span<UInt8>?, Audience)
      -> Void,
    written: (WrittenEvent) -> Void = { _ in }
  ) {
    let texts = texts.span
    for entry in entries {
      switch entry {
      case .publication(let place):
        publication(publications[place])
      case .written(let place):
        written(self.written[place])
      case .timed(let entry):
        let end = entry.key + entry.keyLength
        let title: Span<UInt8>? =
          if let length = entry.titleLength { texts.extracting(end..<end + length) } else { nil }
        timed(
          entry.event, texts.extracting(entry.key..<end), title, audiences[entry.audience])
      }
    }
  }

  /// All events but those written elsewhere, in a form that can be kept.
  package var all: [Publication] {
    var all: [Publication] = []
    forEach {
      all.append($0)
    } timed: { event, key, title, audience in
      let key = Array(key)
      let title: [UInt8]? = if let title { Array(title) } else { nil }
      all.append(
        Publication(
          event: event.event(key: key, title: title), kind: .countdown, key: key,
          audience: audience))
    }
    return all
  }
}

/// An event that was written elsewhere, and its audience.
package struct WrittenEvent: Sendable {
  package let kind: EntityKind
  package let key: [UInt8]
  package let sequence: Int64
  package let canBeMerged: Bool
  /// The line of JSON.
  package let line: [UInt8]
  package let audience: Audience
}
