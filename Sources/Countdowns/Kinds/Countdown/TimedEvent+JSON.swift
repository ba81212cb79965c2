import Wire

extension TimedEvent {
  /// An upper bound for the numbers of an event and their names.
  private static let maximumBytes = 512

  /// Writes the same fields as an event with `head` and `view`, in fewer steps.
  func write(key: Span<UInt8>, title: [UInt8]?, to line: inout JSONLine) {
    line.fields(atMost: 32) {
      $0.raw(isReady ? "\"event\":\"ready\"" : "\"event\":\"tick\"")
    }
    line.field("key", bytes: key)
    line.fields(atMost: Self.maximumBytes) { text in
      text.raw(",\"generation\":")
      text.decimal(generation.value)
      text.raw(",\"seq\":")
      text.decimal(sequence)
      text.raw(",\"due_unix_ms\":")
      text.decimal(dueUnixMS)
      text.raw(",\"late_us\":")
      text.decimal(lateMicroseconds)
      text.raw(isReady ? ",\"state\":\"ready\"" : ",\"state\":\"counting\"")
      text.raw(",\"remaining\":")
      text.decimal(remaining)
      text.raw(",\"remaining_ms\":")
      text.decimal(remainingMS)
      text.raw(",\"deadline_unix_ms\":")
      text.decimal(deadlineUnixMS)
      text.raw(",\"now_unix_ms\":")
      text.decimal(nowUnixMS)
    }
    if let title {
      line.field("title", bytes: title)
    } else {
      line.fields(atMost: 32) { $0.raw(",\"title\":null") }
    }
  }
}
