import Wire

extension StackView {
  static let fieldCount = 11

  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer? = nil) {
    writer.field("key", bytes: key)
    writer.field("state", state.rawValue)
    writer.field("generation", generation.value)
    answer?.write(to: &writer)
    writeDetails(to: &writer)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
  }

  private func writeDetails(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("page", bytes: pages.last)
    writer.field("depth", Int64(pages.count))
    writer.field("pages", list: pages)
    writer.field("bar", bar.rawValue)
    writer.field("fraction", fraction)
  }

  /// What an event says: of the page that it is about, then of the stack.
  func writeEvent(_ name: Event.Name, to line: inout JSONLine) {
    line.field("state", state.rawValue)
    guard let occurrence else {
      writeDetails(to: &line)
      line.field("remaining_ms", remainingMS)
      line.field("now_unix_ms", nowUnixMS)
      return
    }
    line.field("page", bytes: occurrence.page)
    switch occurrence.event {
    case .willAppear:
      line.field("first", occurrence.isMoving)
      line.field("bar", occurrence.bar.rawValue)
    case .didAppear:
      line.field("first", occurrence.isMoving)
      line.field("bar", occurrence.bar.rawValue)
      line.field("bar_changed", occurrence.changesBar)
    case .willDisappear, .didDisappear:
      line.field("last", occurrence.isMoving)
      line.field("bar", occurrence.bar.rawValue)
    case .swiping, .progress:
      line.field("fraction", fraction)
      line.field("remaining_ms", remainingMS)
      line.field("deadline_unix_ms", deadlineUnixMS)
    case .finished, .cancelled, .timedOut, .dismissed:
      break
    }
    line.field("depth", Int64(pages.count))
    line.field("now_unix_ms", nowUnixMS)
  }
}

extension RESPEncoder {
  mutating func view(_ view: StackView, _ answer: Answer? = nil) {
    map(StackView.fieldCount + (answer == nil ? 0 : 2))
    view.write(to: &self, answer: answer)
  }
}
