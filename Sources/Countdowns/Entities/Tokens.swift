/// The tokens of the newest accepted commands on a key. A command that is repeated with its token,
/// because its reply was lost, changes nothing.
package struct Tokens: Equatable, Sendable {
  /// How many tokens a key remembers; the oldest makes room.
  package static let maximum = 16
  /// How long a key remembers its tokens at least, also once it is idle.
  package static let retention = Interval.seconds(600)

  /// The commands with TOKEN. With another command, the same token is another one.
  package enum Command: CaseIterable, Sendable {
    case begin, take, refund, call
    /// START; in records before `EntityRecord.complete` also RESEND.
    case start
    case attempt, resend
  }

  /// What an accepted command has answered, and what it was about.
  package struct Entry: Equatable, Sendable {
    fileprivate var command: Command
    fileprivate var token: [UInt8]
    package var generation: Generation
    fileprivate var at: Instant
    /// A digest of what the request was about besides the key; 0 if that is nothing, or unknown.
    fileprivate var digest: Int64 = 0
    /// The id of what was taken; 0 if nothing was, or unknown.
    package var id: Int64 = 0

    /// Whether an earlier release has stored it, without what the request was about.
    var isOfUnknownRequest: Bool { digest == 0 }
    /// In the digest's place in a journal: the request had this token, and its keys are hidden. No
    /// request has this digest.
    fileprivate static let hidden: Int64 = 2
  }

  /// Oldest first.
  private var entries: [Entry] = []

  package init() {}

  /// Until when the newest is remembered; nil without tokens.
  package var until: Instant? { entries.last.map { $0.at + Self.retention } }

  /// The highest generation; nil without tokens.
  var newest: Generation? { entries.map(\.generation).max() }

  /// The lowest version of records that has everything of them.
  var format: UInt8 {
    entries.contains { $0.digest != 0 || $0.id != 0 || $0.command == .resend }
      ? EntityRecord.complete : EntityRecord.plain
  }

  /// Forgets the tokens of some commands of a generation: a repetition is a new request.
  mutating func forget(_ generation: Generation, of commands: [Command]) {
    entries.removeAll { commands.contains($0.command) && $0.generation == generation }
  }

  package mutating func remember(
    _ token: [UInt8]?, of command: Command, _ generation: Generation, id: Int64 = 0,
    digest: Int64 = 0, at now: Instant
  ) {
    guard let token else { return }
    entries = entries.suffix(Self.maximum - 1)
    entries.append(
      Entry(
        command: command, token: token, generation: generation, at: now, digest: digest, id: id))
  }

  /// Returns the same tokens in other words, with hidden digests of keys.
  func map(_ transform: ([UInt8]) -> [UInt8]) -> Tokens {
    var tokens = self
    for index in entries.indices {
      tokens.entries[index].token = transform(entries[index].token)
      if !entries[index].isOfUnknownRequest { tokens.entries[index].digest = Entry.hidden }
    }
    return tokens
  }

  /// Returns the generation that an accepted command with that token had; nil if there was none.
  package func generation(_ token: [UInt8], of command: Command) -> Generation? {
    entry(token, of: command)?.generation
  }

  /// Returns the newest accepted command with that token; nil if there was none.
  func entry(_ token: [UInt8], of command: Command) -> Entry? {
    entries.last { $0.command == command && $0.token == token }
  }

  /// Returns the accepted request with that token; nil if there was none.
  ///
  /// - Parameter digest: what the request is about besides the key.
  func request(
    _ token: [UInt8], of command: Command, _ digest: Int64
  ) throws(EngineError) -> Entry? {
    guard let entry = entry(token, of: command) else { return nil }
    let isSame = entry.digest == digest || entry.digest == Entry.hidden
    guard isSame || entry.isOfUnknownRequest else { throw .tokenOfAnother }
    return entry
  }

  /// Returns a number, never 0, that stands for what a request takes from limits or gives back.
  package static func digest(_ keys: [[UInt8]], _ cost: UInt32, id: Int64 = 0) -> Int64 {
    var bytes: [UInt8] = []
    for key in keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
      // With their lengths, other keys never have the same bytes.
      bytes += Array("\(key.count):".utf8) + key
    }
    return Int64(bitPattern: SipHash(key: (UInt64(cost), UInt64(bitPattern: id)))(bytes.span) | 1)
  }
}

extension Tokens: Stored {
  package static var blank: Tokens { Tokens() }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    let blank = Entry(command: .begin, token: [], generation: Generation(0), at: .zero)
    visitor.list("tokens", &entries, blank: blank) {
      $0.code("command", &$1.command, of: Command.allCases)
      $0.generation(&$1.generation)
      $0.field("token", &$1.token)
      $0.instant("at", &$1.at)
      guard $0.format >= EntityRecord.complete else { return }
      $0.field("digest", &$1.digest)
      $0.field("id", &$1.id)
    }
    visitor.require(entries.count <= Self.maximum)
  }
}
