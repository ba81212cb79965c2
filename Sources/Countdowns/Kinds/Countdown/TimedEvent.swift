/// An event of a countdown that the passage of time causes: a tick, or `ready`.
///
/// There may be a hundred thousand at one moment, so it has no references, which would have to be
/// counted. Its key and title are passed separately.
package struct TimedEvent: Sendable {
  /// Whether this is `ready`; otherwise it is a tick.
  package var isReady: Bool
  /// Whether it reports a change that is stored.
  package var changesStoredState: Bool
  package var generation: Generation
  package var sequence: Int64
  package var dueUnixMS: Int64
  package var lateMicroseconds: Int64
  package var remaining: Int64
  package var remainingMS: Int64
  package var deadlineUnixMS: Int64
  package var nowUnixMS: Int64

  var name: Event.Name { isReady ? .ready : .tick }
  package var state: CountdownView.State { isReady ? .ready : .counting }

  /// - Parameters:
  ///   - machine: the machine after the event.
  ///   - due: when the event was due.
  init(
    _ machine: Countdown, _ generation: Generation, sequence: Int64, isKept: Bool, due: Instant,
    at now: Moment
  ) {
    let deadline: Instant
    switch machine.phase {
    case .counting(let until):
      (isReady, deadline) = (false, until)
    case .ready(let since):
      (isReady, deadline) = (true, since)
    case .paused, .idle:
      preconditionFailure("time does nothing to what does not count")
    }
    changesStoredState = isReady && isKept
    self.generation = generation
    self.sequence = sequence
    dueUnixMS = now.unixMilliseconds(of: due)
    lateMicroseconds = (now.boot - due).microseconds
    remaining = machine.remainingSteps(at: now.boot)
    remainingMS = machine.remainingTime(at: now.boot).millisecondsRoundedUp
    deadlineUnixMS = now.unixMilliseconds(of: deadline)
    nowUnixMS = now.unixMilliseconds
  }

  /// Returns a view with the fields that the event reports, for observers.
  func view(title: [UInt8]?) -> CountdownView {
    var view = CountdownView(key: [], state, generation, nowUnixMS: nowUnixMS)
    view.remaining = remaining
    view.remainingMS = remainingMS
    view.retryAfterMS = remainingMS
    view.deadlineUnixMS = deadlineUnixMS
    view.title = title
    return view
  }

  var head: Event.Head {
    var head = Event.Head(name, generation)
    head.sequence = sequence
    head.dueUnixMS = dueUnixMS
    head.lateMicroseconds = lateMicroseconds
    return head
  }

  /// Writes the fields of an event after `seq`.
  func writeRest(title: [UInt8]?, to writer: inout some FieldWriter & ~Copyable) {
    writer.field("due_unix_ms", dueUnixMS)
    writer.field("late_us", lateMicroseconds)
    writer.field("state", state.text)
    writer.field("remaining", remaining)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("title", bytes: title)
  }
}
