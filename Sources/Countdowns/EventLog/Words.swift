import Memory
import Wire

/// The codes of words that are frequent in the event log: names of fields and events, states,
/// reasons.
///
/// Events outlive the program: a code keeps its meaning, and new words are added at the end. A word
/// without a code is written out.
struct Words {
  /// Stands for no code.
  static let none: UInt8 = 0

  /// All words with a code, in the order of their codes, which begin at 1.
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
    // Fields of holds.
    "holds", "generation", "request", "grace_ms", "max_ms",
  ]

  static func word(of code: UInt8) -> StaticString? {
    all.indices.contains(Int(code) - 1) ? all[Int(code) - 1] : nil
  }

  /// Returns the code of a word; `none` if it has no code.
  static func code(of word: Span<UInt8>) -> UInt8 {
    all.firstIndex { $0.bytes.hasSameBytes(as: word) }.map { UInt8($0 + 1) } ?? none
  }

  /// A cache of codes by the address of a word: an open hash table of addresses, each with its code
  /// in the low byte. The program has far fewer literals of words than the table has offsets.
  private let found = Cells<UInt64>.allocate(1 << offsetBits)
  private static let offsetBits = 10

  /// Owns the cache. Writers of events borrow `words` as a plain value.
  final class Owner {
    let words = Words()

    deinit { words.found.deallocate() }
  }

  @inline(__always)
  func code(of word: StaticString) -> UInt8 {
    let entry = found[Self.firstOffset(word.address)]
    return entry &>> 8 == UInt64(word.address) ? UInt8(truncatingIfNeeded: entry) : find(word)
  }

  /// Returns the upper bits of a product, which separate addresses that are close together.
  @inline(__always)
  private static func firstOffset(_ address: UInt) -> Int {
    Int(truncatingIfNeeded: (address &* 0x9E37_79B9_7F4A_7C15) &>> (64 &- UInt(offsetBits)))
  }

  @inline(never)
  private func find(_ word: StaticString) -> UInt8 {
    var offset = Self.firstOffset(word.address)
    for _ in 0..<found.count / 2 {
      if found[offset] >> 8 == UInt64(word.address) {
        return UInt8(truncatingIfNeeded: found[offset])
      }
      if found[offset] == 0 { break }
      offset = (offset + 1) & (found.count - 1)
    }
    let index = Self.all.firstIndex { $0.bytes.hasSameBytes(as: word.bytes) }
    let code = index.map { UInt8($0 + 1) } ?? Self.none
    found[offset] = UInt64(word.address) << 8 | UInt64(code)
    return code
  }
}
