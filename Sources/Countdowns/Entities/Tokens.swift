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
    /// START and RESEND.
    case start
    case attempt
  }

  private struct Entry: Equatable {
    var command: Command
    var token: [UInt8]
    var generation: Generation
    var at: Instant
  }

  /// Oldest first.
  private var entries: [Entry] = []

  package init() {}

  /// Until when the newest is remembered; nil without tokens.
  package var until: Instant? { entries.last.map { $0.at + Self.retention } }

  /// The highest generation; nil without tokens.
  var newest: Generation? { entries.map(\.generation).max() }

  /// Forgets the tokens of START and RESEND of a generation that was refunded.
  mutating func forget(_ generation: Generation) {
    entries.removeAll { $0.command == .start && $0.generation == generation }
  }

  package mutating func remember(
    _ token: [UInt8]?, of command: Command, _ generation: Generation, at now: Instant
  ) {
    guard let token else { return }
    entries = entries.suffix(Self.maximum - 1)
    entries.append(Entry(command: command, token: token, generation: generation, at: now))
  }

  /// Returns the same tokens in other words.
  func map(_ transform: ([UInt8]) -> [UInt8]) -> Tokens {
    var tokens = self
    for index in entries.indices { tokens.entries[index].token = transform(entries[index].token) }
    return tokens
  }

  /// Returns the generation that an accepted command with that token had; nil if there was none.
  package func generation(_ token: [UInt8], of command: Command) -> Generation? {
    entries.last { $0.command == command && $0.token == token }?.generation
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
    }
    visitor.require(entries.count <= Self.maximum)
  }
}
