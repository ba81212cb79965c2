/// An option of a command: its parameter, and where a value goes.
struct Option<Request>: Sendable {
  let name: CommandName
  let parameter: Parameter
  let read: Read

  typealias Read = @Sendable (inout Request, inout OptionReader, Call) throws(CommandError) -> Void

  init(
    _ name: String, _ value: String, _ type: ValueType, _ help: String,
    default fallback: String? = nil, isRequired: Bool = false, repeats: Bool = false,
    isSecret: Bool = false, keyOf other: EntityKind? = nil, more: Parameter.More? = nil,
    isDecisive: Bool = true, _ read: @escaping Read
  ) {
    self.name = CommandName(name)!
    parameter = Parameter(
      token: name, value, type, help, default: fallback, isOptional: !isRequired, repeats: repeats,
      isSecret: isSecret, keyOf: other, more: more, isDecisive: isDecisive)
    self.read = read
  }

  /// Puts a value into the request. (A key path would be slower than the rest of the option.)
  typealias Put<Value> = @Sendable (inout Request, Value) -> Void

  static func flag(_ name: String, _ help: String, _ put: @escaping Put<Bool>) -> Option {
    Option(name, "", .flag, help) { request, _, _ in put(&request, true) }
  }

  /// - Parameter lasting: whether less than a millisecond is refused.
  static func duration(
    _ name: String, _ help: String, default fallback: String? = nil, _ put: @escaping Put<Interval>,
    lasting: Bool = false, isRequired: Bool = false
  ) -> Option {
    Option(
      name, "d", .duration(atLeast: lasting ? 1 : 0), help, default: fallback,
      isRequired: isRequired
    ) { request, reader, call throws(CommandError) in
      let value = try reader.duration()
      put(&request, lasting ? try call.lasting(value, name) : value)
    }
  }

  static func integer(
    _ name: String, _ help: String, default fallback: String? = nil, _ put: @escaping Put<Int64>,
    in range: ClosedRange<Int64>, value: String = "n", isRequired: Bool = false
  ) -> Option {
    Option(name, value, .integer(range), help, default: fallback, isRequired: isRequired) {
      request, reader, _ throws(CommandError) in
      put(&request, try reader.integer(in: range))
    }
  }

  /// Makes an option whose value is a time of the wall clock.
  static func moment(_ name: String, _ help: String, _ put: @escaping Put<Instant>) -> Option {
    Option(name, "ms", .moment, help) { request, reader, _ throws(CommandError) in
      let last = Instant.end.microseconds / 1_000
      put(&request, Instant(microseconds: try reader.integer(in: 0...last) * 1_000))
    }
  }

  static func text(
    _ name: String, _ value: String, _ help: String, _ put: @escaping Put<[UInt8]>,
    atMost maximum: Int
  ) -> Option {
    Option(name, value, .text(atMost: maximum), help, isDecisive: false) {
      request, reader, _ throws(CommandError) in
      put(&request, try reader.text(atMost: maximum))
    }
  }

  /// Makes an option whose value is any bytes, up to a length, which logs do not show.
  static func bytes(
    _ name: String, _ help: String, _ put: @escaping Put<[UInt8]>, atMost maximum: Int
  ) -> Option {
    Option(name, "bytes", .bytes(atMost: maximum), help, isSecret: true, isDecisive: false) {
      request, reader, _ throws(CommandError) in
      put(&request, try reader.text(atMost: maximum))
    }
  }

  /// Makes the option of an opaque payload, up to `max-payload-length` bytes.
  static func payload(_ help: String, _ put: @escaping Put<[UInt8]>) -> Option {
    Option("PAYLOAD", "bytes", .bytes(), help, isSecret: true) {
      request, reader, call throws(CommandError) in
      put(&request, try call.payload(try reader.value(), "PAYLOAD"))
    }
  }

  /// Makes an option whose value is the key of another entity, which the command uses.
  static func key(
    _ name: String, _ value: String, of kind: EntityKind, _ help: String,
    _ put: @escaping Put<[UInt8]>
  ) -> Option {
    Option(name, value, .key, help, keyOf: kind) { request, reader, call throws(CommandError) in
      put(&request, Array(try call.key(of: kind, try reader.value(), name)))
    }
  }

  static func choice<T: RawRepresentable & CaseIterable & SendableMetatype>(
    _ name: String, _ help: String, default fallback: String? = nil, _ put: @escaping Put<T>
  ) -> Option where T.RawValue == String {
    Option(name, choices(T.self), .choice(T.self), help, default: fallback) {
      request, reader, _ throws(CommandError) in
      put(&request, try reader.choice())
    }
  }

  private static func choices<T: RawRepresentable & CaseIterable & SendableMetatype>(_: T.Type)
    -> String
  where T.RawValue == String {
    T.allCases.map(\.rawValue).joined(separator: "|")
  }

  static func switched(
    _ name: String, _ help: String, default fallback: String, _ put: @escaping Put<Bool>
  ) -> Option {
    Option(name, choices(Switch.self), .toggle, help, default: fallback) {
      request, reader, _ throws(CommandError) in
      put(&request, try reader.choice() as Switch == .on)
    }
  }

  static func owner(_ put: @escaping Put<Owner>) -> Option {
    Option(
      "OWNER", "none|connection|scope:ID", .owner,
      "Ends it with this connection or a scope; without it, it ends on its own.", default: "none"
    ) { request, reader, call throws(CommandError) in
      put(&request, try call.owner(try reader.value()))
    }
  }

  /// Makes the option by which an accepted command is recognized when it is repeated.
  static func token(_ put: @escaping Put<[UInt8]>) -> Option {
    Option(
      "TOKEN", "t", .token,
      "Makes a retry safe: a token that was accepted before changes nothing.", isSecret: true
    ) { request, reader, call throws(CommandError) in
      let bytes = try reader.value()
      guard !bytes.isEmpty else { throw call.problem("TOKEN is empty") }
      put(&request, try call.spec.text(bytes, "TOKEN", atMost: TextLimits.token))
    }
  }

  static func generation(_ put: @escaping Put<Generation>, isRequired: Bool = false) -> Option {
    Option(
      "GENERATION", "g", .generation, "Applies to this generation only; `STALE` for another one.",
      isRequired: isRequired
    ) { request, reader, _ throws(CommandError) in
      put(&request, try reader.generation())
    }
  }
}

extension Call {
  /// Reads the options from `index` on into `request`.
  func read<Request>(
    _ options: [Option<Request>], from index: Int, into request: inout Request
  ) throws(CommandError) {
    guard arguments.count > index else { return }
    var reader = self.options(from: index)
    var seen: UInt64 = 0
    while let word = reader.nextWord() {
      // By index, as iterating copies each option.
      guard let index = Self.index(of: word, in: options) else { throw reader.unknown() }
      let isFirst = options[index].parameter.repeats || seen & 1 << UInt64(index) == 0
      try reader.begin(options[index].name, isFirst: isFirst)
      seen |= 1 << UInt64(index)
      try options[index].read(&request, &reader, self)
    }
  }

  /// Returns the place of the option that a word names; nil if it names none.
  static func index<Request>(of word: Span<UInt8>, in options: [Option<Request>]) -> Int? {
    // Most options are written in capitals.
    let words = CommandName.Words(word)
    for index in options.indices where options[index].name.isWritten(as: words) { return index }
    guard let name = CommandName(word) else { return nil }
    return options.indices.first { options[$0].name == name }
  }
}
