import Wire

/// One row of the command table: a command's name, arguments, purpose and handler. Dispatch, usage
/// messages, `COMMAND DOCS` and the documentation all come from it.
///
/// A class, as it is passed along with each command.
package final class CommandSpec: Sendable {
  package enum Group: Hashable, Sendable {
    case entities(EntityKind)
    case connection, pubsub, server

    package var name: String {
      if case .entities(let kind) = self { kind.name.description } else { "\(self)" }
    }

    /// What messages call its entities.
    var noun: String { kind?.behavior.noun ?? name }

    /// The kind that its commands are about; nil if none.
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
    /// Allowed on a RESP2 connection that is subscribed.
    package static let whileSubscribed = Flags(rawValue: 32)
    /// Not shown by MONITOR and SLOWLOG.
    package static let unlogged = Flags(rawValue: 64)
    /// Refused while the state is being read, though it is about no entity.
    package static let afterLoading = Flags(rawValue: 128)
    /// Allowed for a user with too much unread output, as it helps to reduce the output.
    package static let makesRoom = Flags(rawValue: 256)
    /// Executed at once between MULTI and EXEC.
    package static let immediate = Flags(rawValue: 512)
    /// Decided by the fleet, though its kind is an argument.
    package static let decidedByFleet = Flags(rawValue: 1_024)
    /// Leaves something at its connection, or changes which replies come on it. It means nothing,
    /// or does harm, on one that several clients share.
    package static let ofConnection = Flags(rawValue: 2_048)
    /// Does no harm if it is done twice, though it writes or is about no entity: the second reply
    /// says as much as the first.
    package static let harmlessAgain = Flags(rawValue: 4_096)

    static let names: [(Flags, StaticString)] = [
      (.write, "write"), (.readOnly, "readonly"), (.fast, "fast"), (.admin, "admin"),
      (.pubsub, "pubsub"),
    ]
  }

  /// What a client does if the reply is lost.
  package enum Retry: String, CaseIterable, Sendable {
    /// Repeats the command.
    case safe
    /// Repeats it if it has a TOKEN: the daemon then knows the second from the first.
    case token
    /// Reports that it may have run, or not.
    case never
  }

  package var retry: Retry {
    if !flags.isDisjoint(with: [.readOnly, .harmlessAgain]) { return .safe }
    return parameters.contains { $0.token == "TOKEN" } ? .token : .never
  }

  /// Whether it is refused while the state is being read.
  var needsState: Bool {
    if subcommand == "HELP" { return false }
    return group.kind != nil || flags.contains(.afterLoading)
  }

  /// Whether it is answered while damage is to be acknowledged: it decides nothing.
  var worksWhenDamaged: Bool {
    group == .connection || subcommand == "HELP"
      || ["INFO", "METRICS", "HELP", "COMMAND", "STATE"].contains(name)
  }

  typealias Handler = @Sendable (Call) throws(CommandError) -> Void
  typealias OptionsStart = @Sendable (Arguments) -> Int

  /// The name in capitals: `COUNTDOWN`, and `START` if there are several commands under one name.
  package let name: String
  package let subcommand: String?
  /// The parameters as a line: `key [COUNT n] [FIRE] [EARLY skip|show] [pattern ...]`.
  package let syntax: String
  let parameters: [Parameter]
  package let summary: String
  package let group: Group
  package let flags: Flags
  package let complexity: String
  package let reply: ReplyForm
  let handler: Handler

  /// The arguments that are keys of other entities, by their positions, and whether any number of
  /// them follows.
  let otherKeys: [(position: Int, kind: EntityKind, repeats: Bool)]
  /// Returns where the options begin, if the last argument can be given several times.
  let optionsStart: OptionsStart?

  /// Position of the key among the arguments, counted from the command's name; 0 for none.
  package let keyPosition: Int
  /// Fewest and most arguments, names included; nil for any number.
  let arguments: (least: Int, maximum: Int?)

  init(
    _ name: String, _ subcommand: String? = nil, _ parameters: [Parameter] = [], group: Group,
    _ flags: Flags, complexity: String = "O(1)", _ summary: String, _ reply: ReplyForm = .special,
    optionsStart: OptionsStart? = nil, handler: @escaping Handler
  ) {
    self.name = name
    self.subcommand = subcommand
    fullName = subcommand.map { "\(name) \($0)" } ?? name
    syntax = parameters.map(\.syntax).joined(separator: " ")
    self.parameters = parameters
    self.summary = summary
    self.group = group
    self.flags = flags
    self.complexity = complexity
    self.reply = reply
    self.handler = handler
    let words = subcommand == nil ? 1 : 2
    self.optionsStart = optionsStart
    otherKeys = parameters.prefix { $0.token == nil }.enumerated().compactMap { index, parameter in
      parameter.other.map { (words + index, $0, parameter.repeats) }
    }
    let keyName = group.kind?.behavior.keyName
    keyPosition = keyName != nil && parameters.first?.name == keyName ? words : 0
    let range = parameters.argumentCount
    arguments = (least: words + range.least, maximum: range.maximum.map { words + $0 })
  }

  /// The names of keys in usage lines.
  static let keyNames = Set(EntityKind.allCases.map { $0.behavior.keyName })

  package let fullName: String
  package var usage: String { syntax.isEmpty ? fullName : "\(fullName) \(syntax)" }

  /// As in Redis: exact if positive, else at least its magnitude.
  var arity: Int {
    arguments.least == arguments.maximum ? arguments.least : -arguments.least
  }
}

/// An error reply. Its first word is the error code, which clients check.
package struct CommandError: Error, Equatable {
  package let text: String
  /// The rules that refuse; nil for any other error.
  let rules: AccessRules.Part?

  init(_ text: String, by rules: AccessRules.Part? = nil) {
    self.text = text
    self.rules = rules
  }

  static func syntax(_ problem: String, _ spec: CommandSpec) -> CommandError {
    CommandError("ERR \(problem); usage: \(spec.usage)")
  }
}
