import Wire

extension PageView {
  static let fieldCount = 12

  func write(to writer: inout some FieldWriter & ~Copyable, answer: Answer? = nil) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    answer?.write(to: &writer)
    writeState(to: &writer)
    writer.field("screen", bytes: screen)
    writer.field("owner", owner)
  }

  private func writeState(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("state", state.rawValue)
    writer.field("animated", isAnimated)
    writer.field("visible", isVisible)
    writer.field("items", items)
    writer.field("message", bytes: message)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
  }

  func writeEvent(_ name: Event.Name, to line: inout JSONLine) {
    if name == .closed {
      line.field("state", "unknown" as StaticString)
      line.field("now_unix_ms", nowUnixMS)
      return
    }
    writeState(to: &line)
    if name == .failed { line.field("error_page", state == .error) }
    if name == .snapshot {
      line.field("screen", bytes: screen)
      line.field("owner", owner)
    }
  }
}

extension RESPEncoder {
  mutating func view(_ view: PageView, _ answer: Answer? = nil) {
    map(PageView.fieldCount + (answer == nil ? 0 : 2))
    view.write(to: &self, answer: answer)
  }
}
