import CountdownCore
import CountdownEngine
import RESP

// The fields of each view, once for replies and snapshots alike. docs/protocol.md explains them.

extension CountdownView {
  /// Fields that `write` writes, without a decision.
  static let fieldCount = 14

  func write(to writer: inout some FieldWriter, decision: StartDecision? = nil) {
    writer.field("key", bytes: key)
    writeState(to: &writer)
    if let decision {
      writer.field("accepted", decision != .refused)
      switch decision {
      case .accepted: writer.null("reason")
      case .acceptedBefore: writer.field("reason", "duplicate" as StaticString)
      case .refused: writer.field("reason", "cooldown" as StaticString)
      }
    }
    writer.field("retry_after_ms", remainingMS)
    writer.field("count", Int64(count))
    writer.field("every_ms", everyMS)
    writer.field("sends", Int64(sends))
    writer.field("owner", owner)
    writer.field("meta", bytes: meta)
  }

  /// What a tick changes.
  func writeState(to writer: inout some FieldWriter) {
    writer.field("state", state.text)
    writer.field("generation", generation.value)
    writeProgress(to: &writer)
  }

  func writeProgress(to writer: inout some FieldWriter) {
    writer.field("remaining", remaining)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("title", bytes: title)
  }
}

extension HUDView {
  static let fieldCount = 16

  func write(to writer: inout some FieldWriter) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    writeState(to: &writer)
  }

  func writeState(to writer: inout some FieldWriter) {
    writer.field("state", state.rawValue)
    writer.field("level", level.rawValue)
    writer.field("kind", kind.rawValue)
    writer.field("status", bytes: status)
    writer.field("mask", mask.rawValue)
    writer.field("fraction", fraction)
    writer.field("leases", leases)
    writer.field("dismissing", isDismissing)
    writer.field("paused", isPaused)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("end", end?.rawValue)
    writer.field("owner", owner)
  }
}

extension TimerView {
  static let fieldCount = 13

  func write(to writer: inout some FieldWriter) {
    writer.field("key", bytes: key)
    writer.field("generation", generation.value)
    writeState(to: &writer)
    writer.field("every_ms", everyMS)
    writer.field("clock", clock.rawValue)
    writer.field("late", late.rawValue)
    writer.field("fired", fired)
    writer.field("missed", missed)
    writer.field("owner", owner)
    writer.field("payload", bytes: payload)
  }

  func writeState(to writer: inout some FieldWriter) {
    writer.field("state", state.rawValue)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
  }
}

extension CountdownView.State {
  var text: StaticString {
    switch self {
    case .counting: "counting"
    case .paused: "paused"
    case .ready: "ready"
    }
  }
}

extension RESPEncoder {
  mutating func view(_ view: CountdownView, _ decision: StartDecision? = nil) {
    map(CountdownView.fieldCount + (decision == nil ? 0 : 2))
    view.write(to: &self, decision: decision)
  }

  mutating func view(_ view: HUDView) {
    map(HUDView.fieldCount)
    view.write(to: &self)
  }

  mutating func view(_ view: TimerView) {
    map(TimerView.fieldCount)
    view.write(to: &self)
  }
}
