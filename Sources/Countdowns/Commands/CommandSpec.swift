import Wire

/// One row of the command table: what a command is called, what it takes, what it is for and what
/// it does. Dispatch, usage messages, `COMMAND DOCS` and the documentation all come from it.
///
/// A class, as it is passed along with each command.
package final class CommandSpec: Sendable {
  package enum Group: Hashable, Sendable {
    case entities(EntityKind)
    case connection, pubsub, server

    package var name: String {
      if case .entities(let kind) = self { kind.name.description } else { "\(self)" }
    }

    /// What its keys name.
    var noun: String { self == .entities(.nav) ? "stack" : name }

    /// Nil where its commands are about no entities.
    var kind: EntityKind? {
      if case .entities(let kind) = self { kind } else { nil }
    }
  }

  package struct Flags: OptionSet, Sendable {
    package let rawValue: Int
    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let write = Flags(rawValue: 1)
    package static let readOnly = Flags(rawValue: 2)
    package static let fast = Flags(rawValue: 4)
    package static let admin = Flags(rawValue: 8)
    package static let pubsub = Flags(rawValue: 16)
    /// May be used by a RESP2 connection that is subscribed.
    package static let whileSubscribed = Flags(rawValue: 32)
    /// MONITOR and SLOWLOG do not show it: it would show itself.
    package static let unlogged = Flags(rawValue: 64)
    /// Waits until the whole state is read, though it is about no entity.
    package static let afterLoading = Flags(rawValue: 128)
    /// Done also for a user with too much unread output: it leads out of there.
    package static let makesRoom = Flags(rawValue: 256)

    static let names: [(Flags, StaticString)] = [
      (.write, "write"), (.readOnly, "readonly"), (.fast, "fast"), (.admin, "admin"),
      (.pubsub, "pubsub"),
    ]
  }

  /// Whether it waits until the whole state is read.
  var needsState: Bool {
    if subcommand == "HELP" { return false }
    return group.kind != nil || flags.contains(.afterLoading)
  }

  typealias Handler = @Sendable (Call) throws(CommandError) -> Void

  /// In capitals: `COUNTDOWN`, and `START` for one of several under one name.
  package let name: String
  package let subcommand: String?
  /// What follows the name: `key [COUNT n] [FIRE] [EARLY skip|show] [pattern ...]`.
  package let syntax: String
  package let summary: String
  package let group: Group
  package let flags: Flags
  package let complexity: String
  let handler: Handler

  /// What `syntax` says, taken apart.
  let parameters: [Syntax.Parameter]
  /// Whether any of its arguments must not be shown in logs.
  let hasSecrets: Bool

  /// Position of the key among the arguments, counted from the command's name; 0 for none.
  package let keyPosition: Int
  /// Fewest and most arguments, names included; nil for any number.
  let arguments: (least: Int, most: Int?)

  init(
    _ name: String, _ subcommand: String? = nil, _ syntax: String = "", group: Group,
    _ flags: Flags, complexity: String = "O(1)", _ summary: String, handler: @escaping Handler
  ) {
    self.name = name
    self.subcommand = subcommand
    fullName = subcommand.map { "\(name) \($0)" } ?? name
    self.syntax = Syntax.shown(syntax)
    self.summary = summary
    self.group = group
    self.flags = flags
    self.complexity = complexity
    self.handler = handler
    let words = subcommand == nil ? 1 : 2
    parameters = Syntax.parse(syntax)
    hasSecrets = parameters.contains(where: \.isSecret)
    let isKeyed = parameters.first.map { Self.keyNames.contains($0.name) } ?? false
    keyPosition = isKeyed ? words : 0
    let range = Syntax.argumentCount(of: parameters)
    arguments = (least: words + range.least, most: range.most.map { words + $0 })
  }

  /// What syntax lines call a key.
  static let keyNames: Set = ["key", "screen", "scope", "session", "stack", "page"]

  package let fullName: String
  package var usage: String { syntax.isEmpty ? fullName : "\(fullName) \(syntax)" }

  /// As in Redis: exact if positive, else at least its magnitude.
  var arity: Int {
    arguments.least == arguments.most ? arguments.least : -arguments.least
  }
}

/// Why a command was not done. Its first word is the code that clients go by.
package struct CommandError: Error, Equatable {
  package let text: String
  init(_ text: String) { self.text = text }

  static func syntax(_ problem: String, _ spec: CommandSpec) -> CommandError {
    CommandError("ERR \(problem); usage: \(spec.usage)")
  }
}
