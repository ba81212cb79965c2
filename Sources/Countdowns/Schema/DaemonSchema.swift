import Wire

/// What the daemon knows of its commands, views, events, reasons and errors, as one value. Clients,
/// docs and JSON Schemas are made from it.
package enum DaemonSchema {
  /// The version of its form. A reader refuses a greater one.
  static let version = 1

  /// The parts that this module describes, in the order in which they are printed.
  package static var parts: [RESPValue.Pair] {
    [
      .of("schema", version), .of("version", Product.version),
      .of("kinds", EntityKind.allCases.map(kind)),
      .of("commands", CommandTable.all.rows.filter { $0.subcommand != "HELP" }.map(command)),
      .of("event_fields", eventFields.map(field)),
      .of("reasons", Reason.allCases.map { named("\($0.rawValue)", $0.help) }),
      .of("errors", ErrorCode.allCases.map(error)),
      .of("access", accessClasses.map { named($0.name, $0.help) }),
    ]
  }

  private static func kind(_ kind: EntityKind) -> RESPValue {
    func describe<K: Kind>(_: K.Type) -> RESPValue {
      .map([
        .of("name", "\(K.name)"), .of("key", K.keyName), .of("absent", "\(K.stateOfNothing)"),
        .of("owners", K.hasOwners), .of("durable", K.canBeDurable),
        .of("fields", K.fields.map(field)), .of("events", K.events.map(event)),
      ])
    }
    return describe(kind.behavior)
  }

  private static func event(_ event: EventDescription) -> RESPValue {
    .map([
      .of("name", "\(event.name.rawValue)"), .of("help", event.help),
      .of("fields", event.extra.map(field)),
    ])
  }

  private static func field(_ field: Field) -> RESPValue {
    .map([.of("name", field.name)] + field.type.pairs + [.of("help", field.help)])
  }

  private static func command(_ spec: CommandSpec) -> RESPValue {
    .map([
      .of("name", spec.fullName), .of("group", spec.group.name), .of("summary", spec.summary),
      .of("complexity", spec.complexity), .of("since", Product.version),
      .of("access", spec.flags.contains(.admin) ? "admin" : "all"),
      .of("writes", spec.flags.contains(.write)),
      .of("retry", spec.retry.rawValue),
      .of("of_connection", spec.flags.contains(.ofConnection)),
      .of("arguments", spec.parameters.map(argument)), .of("reply", spec.reply.schema),
    ])
  }

  private static func argument(_ parameter: Parameter) -> RESPValue {
    .map(
      [
        .of("name", parameter.name), .of("display", parameter.display),
        .of("token", parameter.token.map { .simpleString($0) } ?? .null),
        .of("required", !parameter.isOptional),
        .of("or", parameter.alternative.map { .simpleString($0) } ?? .null),
        .of("repeats", parameter.repeats),
        .of("secret", parameter.isSecret),
      ] + parameter.type.pairs + [
        .of("default", parameter.fallback.map { .simpleString($0) } ?? .null),
        .of("help", parameter.help),
        .of("since", Product.version),
      ])
  }

  private static func named(_ name: String, _ help: String) -> RESPValue {
    .map([.of("name", name), .of("help", help)])
  }

  private static func error(_ code: ErrorCode) -> RESPValue {
    .map([.of("name", code.rawValue), .of("help", code.meaning), .of("do", code.remedy)])
  }

  /// The fields that all events begin with.
  static let eventFields: [Field] = [
    Field("event", .text(), "Its name."), Field("key", .key, "The key of the entity."),
    Field("generation", .generation, "The fencing token."),
    Field("seq", .count, "Rises across the whole daemon and across restarts, with gaps."),
    Field(
      "position", .text().orNull,
      "In a fleet, of shared kinds: the same on all hosts, for cursors; in a snapshot, of the "
        + "newest change that it includes."
    ),
    Field(
      "due_unix_ms", .moment.orNull, "When it was due, rounded down; if time has caused it."),
    Field("late_us", .microseconds.orNull, "How late it is; if time has caused it."),
    Field("reason", .choice(Reason.self).orNull, "Why, if the name does not say it."),
  ]

  private static let accessClasses = [
    (name: "all", help: "Whoever may connect: `access.connect`."),
    (name: "admin", help: "Whoever may manage the daemon: `access.admin`."),
  ]
}

/// The first words of error replies.
enum ErrorCode: String, CaseIterable {
  case err = "ERR"
  case notFound = "NOTFOUND"
  case stale = "STALE"
  case limit = "LIMIT"
  case noPermission = "NOPERM"
  case readOnly = "READONLY"
  case damaged = "DAMAGED"
  case loading = "LOADING"
  case unavailable = "UNAVAILABLE"
  case unsure = "UNSURE"
  case execAbort = "EXECABORT"
  case noProtocol = "NOPROTO"

  var meaning: String {
    switch self {
    case .err: "Wrong syntax, out of range, or not possible in this state; the text says which."
    case .notFound: "There is no such entity."
    case .stale: "The entity has another generation."
    case .limit: "A limit is reached; the text names it."
    case .noPermission: "This user may not connect, use this command, or use this key."
    case .readOnly: "State cannot be stored now; nothing was changed."
    case .damaged: "The state was damaged, and nothing is decided, as `on-damage: refuse` says."
    case .loading: "The daemon has just started and is reading its state."
    case .unavailable: "The fleet cannot decide now; nothing was done."
    case .unsure: "The command may have been done for the fleet, or not."
    case .execAbort: "A command since MULTI was refused, so EXEC ran none."
    case .noProtocol: "HELLO with a version other than 2 and 3."
    }
  }

  var remedy: String {
    switch self {
    case .err: "Correct the call."
    case .notFound: "Start it first, or treat it as over."
    case .stale: "Read the entity; somebody has started it again."
    case .limit: "Raise the limit in the configuration, or use less."
    case .noPermission: "The text names the rule of `access:` that would allow it."
    case .readOnly: "`INFO persistence` says why; make room or repair the disk."
    case .damaged: "An administrator looks at it, and acknowledges it with `STATE ACKNOWLEDGE`."
    case .loading: "Ask again soon."
    case .unavailable:
      "Try again. If the text names a format, run the same release on all hosts."
    case .unsure: "Repeat it with the same TOKEN, or read."
    case .execAbort: "Correct the command that was refused."
    case .noProtocol: "Use 2 or 3."
    }
  }
}

extension ReplyForm {
  fileprivate var schema: RESPValue {
    let type: [RESPValue.Pair]
    let form: String
    switch self {
    case .view: (form, type) = ("view", [])
    case .viewOrNull: (form, type) = ("view", [.of("null", true)])
    case .answer: (form, type) = ("answer", [])
    case .answerOfSeveral(let fields): (form, type) = ("answer", [.of("fields", fields.schema)])
    case .answerOrNull: (form, type) = ("answer", [.of("null", true)])
    case .done: (form, type) = ("done", [])
    case .listing: (form, type) = ("page", [])
    case .ok: (form, type) = ("ok", [])
    case .value(let value): (form, type) = ("value", value.pairs)
    case .special: (form, type) = ("special", [])
    }
    return .map([.of("form", form)] + type)
  }
}

extension ValueType {
  /// The type as members of a JSON object.
  fileprivate var pairs: [RESPValue.Pair] {
    func type(_ name: String, _ more: RESPValue.Pair...) -> [RESPValue.Pair] {
      [.of("type", name)] + more
    }
    func sized(_ name: String, _ maximum: Int?) -> [RESPValue.Pair] {
      type(name) + (maximum.map { [.of("max", $0)] } ?? [])
    }
    switch self {
    case .key: return type("key", .of("max", 512))
    case .text(let maximum): return sized("text", maximum)
    case .bytes(let maximum): return sized("bytes", maximum)
    case .token: return type("token", .of("max", TextLimits.token))
    case .integer(let range):
      return type(
        "integer", .of("least", Int(range.lowerBound)), .of("most", Int(range.upperBound)))
    case .number(let range):
      return type(
        "number", .of("least", .double(range.lowerBound)), .of("most", .double(range.upperBound)))
    case .boolean: return type("boolean")
    case .flag: return type("flag")
    case .toggle: return type("toggle")
    case .duration(let least): return type("duration", .of("unit", "ms"), .of("least", Int(least)))
    case .microseconds: return type("duration", .of("unit", "us"), .of("least", 0))
    case .moment: return type("moment", .of("unit", "ms"))
    case .generation: return type("generation")
    case .choice(let values): return type("choice", .of("values", values.map { .simpleString($0) }))
    case .durationOr(let word):
      return type("duration", .of("unit", "ms"), .of("least", 0), .of("word", word))
    case .rate: return type("rate")
    case .owner: return type("owner")
    case .list(let element): return type("list", .of("of", .map(element.pairs)))
    case .record(let name, let fields):
      return type("record", .of("record", name), .of("fields", fields.schema))
    case .view: return type("view")
    case .optional(let type): return type.pairs + [.of("null", true)]
    }
  }
}

extension [Field] {
  fileprivate var schema: [RESPValue] {
    map { .map([.of("name", $0.name)] + $0.type.pairs + [.of("help", $0.help)]) }
  }
}
