/// An entry of the journal of decisions.
package struct JournalEntry: Equatable, Sendable {
  package enum What: UInt8, CaseIterable, Sendable {
    /// The beginning of a segment: a replay can begin here.
    case segment
    /// The state of an entity, before the first entry of a segment that is about it.
    case state
    /// A command, and its answer.
    case decision
    /// A code expired before anybody entered it.
    case expired
    /// A countdown counts on, as its limits are full: in journals that have no `over`.
    case waits
    /// An entity ended with its owner, or was cleared.
    case ended
    /// The configuration was reloaded.
    case reloaded
    /// The daemon ended in order.
    case closed
    /// A countdown is over: its limits decide whether it is ready or counts on.
    case over
    /// Until when all that was due has been run: a daemon may be late, or suspended.
    case ran
    /// Until when a limit has promised room to those who wait.
    case promised
  }

  /// The answer to a command.
  package struct Answer: Equatable, Sendable {
    /// Nil if the command neither accepts nor refuses.
    package var isAccepted: Bool?
    package var reason = ""
    /// The key of the limit that refuses.
    package var limit: [UInt8]?
    package var retryAfterMS: Int64 = 0
    package var generation: Int64 = 0
    /// The error reply; empty if there was none.
    package var error = ""

    package init() {}
  }

  package var what: What
  package var at: Moment
  package var kind = EntityKind.countdown
  package var key: [UInt8] = []
  /// The words of a command; of a reload the settings that have changed.
  package var words: [[UInt8]] = []
  /// The keys of the limits that were asked.
  package var limits: [[UInt8]] = []
  package var uid: UInt32 = 0
  package var answer = Answer()
  /// The number before those that a command gave to sends and limits.
  package var number: Int64 = 0
  /// The time that `ran` and `promised` are about.
  package var until: Instant?
  package var records: [[UInt8]] = []
  /// Of a segment.
  package var segment = Segment()

  package struct Segment: Equatable, Sendable {
    /// The boot of the machine: its boot clock began at zero.
    package var bootID = ""
    /// `plain`, or the fingerprint of the secret under which keys are hashed.
    package var keys = ""
    /// Whether all that was known before still holds.
    package var continues = false
    /// How many entries were lost before.
    package var lost: Int64 = 0
    /// Limits that take their keys from the countdowns', as `name=4`.
    package var derived: [String] = []

    package init() {}
  }

  package init(_ what: What, at now: Moment) {
    self.what = what
    at = now
  }
}

extension JournalEntry: Stored {
  package static var blank: JournalEntry {
    JournalEntry(.decision, at: Moment(boot: .zero, wall: .zero))
  }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.code("what", &what, of: What.allCases)
    visitor.field("boot", &at.boot.microseconds)
    visitor.field("wall", &at.wall.microseconds)
    visitor.require(
      Instant.possible.contains(at.boot.microseconds)
        && Instant.possible.contains(at.wall.microseconds))
    switch what {
    case .segment:
      segment.fields(&visitor)
    case .state:
      visitor.code("kind", &kind, of: EntityKind.allCases)
      visitor.field("key", &key)
      visitor.list("records", &records, blank: []) { $0.field("record", &$1) }
    case .decision:
      visitor.code("kind", &kind, of: EntityKind.allCases)
      visitor.field("uid", &uid)
      visitor.list("words", &words, blank: []) { $0.field("word", &$1) }
      visitor.list("limits", &limits, blank: []) { $0.field("limit", &$1) }
      answer.fields(&visitor)
      visitor.field("number", &number)
      visitor.instant("until", &until)
    case .expired, .over:
      visitor.field("key", &key)
    case .promised:
      visitor.code("kind", &kind, of: EntityKind.allCases)
      visitor.field("key", &key)
      visitor.instant("until", &until)
    case .waits:
      visitor.field("key", &key)
      visitor.instant("until", &until)
    case .ran:
      visitor.instant("until", &until)
    case .ended:
      visitor.code("kind", &kind, of: EntityKind.allCases)
      visitor.field("key", &key)
      visitor.text("reason", &answer.reason)
    case .reloaded:
      visitor.list("settings", &words, blank: []) { $0.field("setting", &$1) }
    case .closed:
      visitor.text("boot_id", &segment.bootID)
    }
  }
}

extension JournalEntry.Answer {
  fileprivate mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.code("accepted", &isAccepted, of: [nil, false, true])
    visitor.text("reason", &reason)
    visitor.field("limit", &limit)
    visitor.field("retry_after_ms", &retryAfterMS)
    visitor.field("generation", &generation)
    visitor.text("error", &error)
  }
}

extension JournalEntry.Segment {
  fileprivate mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.version(1)
    visitor.text("boot_id", &bootID)
    visitor.text("keys", &keys)
    visitor.field("continues", &continues)
    visitor.field("lost", &lost)
    visitor.list("derived", &derived, blank: "") { $0.text("limit", &$1) }
  }
}
