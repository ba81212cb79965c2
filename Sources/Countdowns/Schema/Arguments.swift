/// What an argument of a command is.
struct ArgumentDescription: Sendable {
  let name: String
  let type: ValueType
  let help: String
  var fallback: String?
}

extension Option {
  var argument: ArgumentDescription {
    ArgumentDescription(name: name.text, type: type, help: help, fallback: fallback)
  }
}

extension Syntax.Parameter {
  /// Returns the parameter with its description: that of the option, or of the table below.
  func described(by options: [ArgumentDescription], in command: String) -> Self {
    let own = options.first { $0.name == token }
    let name = token ?? self.name
    guard let found = own ?? Self.known["\(command) \(name)"] ?? Self.known[name] else {
      return self
    }
    var parameter = self
    parameter.type = found.type
    parameter.help = found.help
    parameter.fallback = found.fallback
    return parameter
  }

  /// The arguments that are no `Option`, by name, or by command and name.
  private static let known = Dictionary(
    uniqueKeysWithValues: arguments.map { ($0.name, $0) })

  private static func argument(
    _ name: String, _ type: ValueType, _ help: String, default fallback: String? = nil
  ) -> ArgumentDescription {
    ArgumentDescription(name: name, type: type, help: help, fallback: fallback)
  }

  private static let arguments = [
    argument("key", .key, "The key, 1 to 512 bytes."),
    argument("limit", .key, "The keys of more named limits: all have room, or none is taken."),
    argument("screen", .key, "The screen."), argument("session", .key, "The session."),
    argument("scope", .key, "The scope."), argument("stack", .key, "The stack."),
    argument("page", .key, "The page."),
    argument("COUNTDOWN RETIME d", .duration(), "The time left; 0 makes it ready at once."),
    argument("TIMER SET d", .duration(), "The time until it fires; 0 fires at once."),
    argument("TIMER RETIME d", .duration(), "The time until it fires; 0 fires at once."),
    argument("DEBOUNCE CALL d", .duration(atLeast: 1), "The quiet time after the last call."),
    argument("CLOCK ADVANCE d", .duration(), "How far to advance."),
    argument("CLOCK SUSPEND d", .duration(), "How long the machine is suspended."),
    argument("CLOCK RESTART d", .duration(), "How long the daemon is away.", default: "0"),
    argument("CLOCK REBOOT d", .duration(), "How long the machine is off.", default: "0"),
    argument(
      "CLOCK SET time", .text(), "Milliseconds since 1970, or a duration with `+` or `-`."),
    argument("THROTTLE REFUND n", .integer(1...Throttle.Rate.most), "How much to give back."),
    argument("result", .bytes(), "The result, at most `limits.max-result-length`."),
    argument("action", .text(atMost: TextLimits.action), "The name of the action."),
    argument("fraction", .fraction, "The progress."),
    argument("HUD STATUS s", .text(atMost: TextLimits.status), "The text."),
    argument("url", .text(atMost: TextLimits.url), "The request."),
    argument("event", .text(atMost: 128), "The name of the event."),
    argument("payload", .bytes(atMost: TextLimits.payload), "Data for the handler."),
    argument(
      "EVENTS SINCE cursor", .text(),
      "From EVENTS CURSOR or SINCE; or the `seq` of the newest event you have."),
    argument("MATCH", .text(atMost: 1_024), "Only channels that match; up to 16 times."),
    argument("SUBSCRIBED", .flag, "Only what this connection is subscribed to."),
    argument("EVENTS SINCE LIMIT", .integer(1...10_000), "The most events.", default: "1000"),
    argument("channel", .text(), "A channel, such as `countdown:KEY`."),
    argument("pattern", .text(atMost: 1_024), "A glob pattern: `*` `?` `[a-z]` `[^a]`."),
    argument("kind", .text(), "A kind: countdown, timer, throttle, once, gate or debounce."),
    argument("glob", .text(atMost: 1_024), "A glob pattern for keys: `*` `?` `[a-z]` `[^a]`."),
    argument("message", .text(), "The text to reply with."),
    argument("protover", .integer(2...3), "The version of the protocol."),
    argument("AUTH", .text(), "A user and a password; refused, as there are none."),
    argument("username", .text(), "A user; refused, as there are none."),
    argument("password", .text(), "A password; refused, as there are none."),
    argument("SETNAME", .text(atMost: TextLimits.clientName), "The name of this connection."),
    argument("index", .integer(0...0), "The number of the database."),
    argument("TYPE", .text(), "Only connections of this type."),
    argument("CLIENT LIST ID", .count, "Only these connections."),
    argument("CLIENT SETNAME name", .text(atMost: TextLimits.clientName), "The name."),
    argument("attribute", .text(), "LIB-NAME or LIB-VER."),
    argument("value", .text(), "The value."),
    argument("address", .text(), "An address, as in CLIENT LIST."),
    argument("CLIENT KILL ID", .count, "The connection with this number."),
    argument("ADDR", .text(), "The connections of this address."),
    argument("LADDR", .text(), "The connections to this address of the daemon."),
    argument("UID", .count, "The connections of this user, by number."),
    argument("USER", .text(), "The connections of this user, by name."),
    argument("MAXAGE", .count, "The connections that are at least so many seconds old."),
    argument("SKIPME", .text(), "Whether to spare this connection.", default: "yes"),
    argument("on-off-skip", .text(), "Whether replies are sent."),
    argument("on-off", .text(), "Without effect."),
    argument("section", .text(), "A section, such as `stats`; `everything` for all."),
    argument("setting", .text(), "The name of the setting."),
    argument("SLOWLOG GET count", .integer(-1...Int64.max), "The most commands.", default: "10"),
    argument("JOURNAL READ count", .integer(1...1_048_576), "The most bytes."),
    argument("position", .count, "Where to read; 0 for the oldest entry."),
    argument("BACKUP READ count", .integer(1...1_048_576), "The most bytes."),
    argument("shared", .text(), "A kind that the fleet shares."),
    argument("place", .count, "The place of the record in the store."),
    argument("record", .bytes(), "The record, as in a copy of the state."),
    argument("sends", .bytes(), "The place and the record of each page of sends of a limit."),
    argument("offset", .count, "Where to read."),
    argument("id", .count, "The number of the copy, as BEGIN returned it."),
    argument("NOSAVE", .flag, "Without effect."), argument("SAVE", .flag, "Without effect."),
    argument("FILTERBY", .text(), "Which commands: ACLCAT, MODULE or PATTERN, and a value."),
    argument("name", .text(), "The name of a command."),
    argument("command", .text(), "A command."), argument("argument", .text(), "Its arguments."),
  ]
}
