/// The codes of words that the event log has many of: names of fields and events, states, reasons.
///
/// What was written outlives the program: a code keeps its meaning, and new words come at the end. A
/// word that has none is written out.
struct Words {
  /// Not a code.
  static let none: UInt8 = 0

  /// By their codes, from 1 on.
  private static let all: [StaticString] = [
    // Fields.
    "due_unix_ms", "late_us", "reason", "state", "remaining", "remaining_ms", "deadline_unix_ms",
    "now_unix_ms", "title", "retry_after_ms", "count", "every_ms", "sends", "owner", "meta",
    "sends_left", "policy", "channel", "next_channel", "expires_in_ms", "attempts_left", "clock",
    "late", "fired", "missed", "payload", "level", "kind", "status", "mask", "fraction", "leases",
    "dismissing", "paused", "end", "durable", "superseded_generation", "result", "action", "calls",
    "quiet_ms", "max_wait_ms", "leading",
    // Events.
    "started", "ready", "resumed", "retimed", "cancelled", "refunded", "expired", "locked",
    "passed", "set", "done", "pending", "run", "dismissed", "opened", "closed", "will-appear",
    "did-appear", "updated", "will-disappear", "did-disappear",
    // States, owners and reasons.
    "counting", "idle", "none", "cooldown", "window", "exhausted", "duplicate", "owner-gone",
    "replaced", "quiet", "max-wait", "flush",
  ]

  static func word(of code: UInt8) -> StaticString? {
    all.indices.contains(Int(code) - 1) ? all[Int(code) - 1] : nil
  }

  /// What was found before, by where the words are in memory: the same one is most often asked for
  /// at the same place.
  private var found = [Found](repeating: Found(address: 0, code: none), count: 256)

  private struct Found {
    var address: UInt
    var code: UInt8
  }

  mutating func code(of word: StaticString) -> UInt8 {
    let address = UInt(bitPattern: word.utf8Start)
    let place = Int(truncatingIfNeeded: (address ^ address >> 8) & 255)
    if found[place].address == address { return found[place].code }
    let index = Self.all.firstIndex { $0.bytes.elementsEqual(word.bytes) }
    let code = index.map { UInt8($0 + 1) } ?? Self.none
    found[place] = Found(address: address, code: code)
    return code
  }
}
