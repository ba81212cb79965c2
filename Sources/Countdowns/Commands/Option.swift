/// An option of a command: what it is called, what its value can be, and where that goes. The
/// command's syntax line, and with it arity, redaction and COMMAND DOCS, come from here.
struct Option<Request>: Sendable {
  let name: CommandName
  /// As in a syntax line, without brackets: `EVERY d`.
  let syntax: String
  let isRequired: Bool
  let read: Read

  typealias Read = @Sendable (inout Request, inout OptionReader, Call) throws(CommandError) -> Void

  /// - Parameters:
  ///   - value: what a syntax line calls the value; an exclamation mark says that logs must not
  ///     show it. Empty for an option without a value.
  init(_ name: String, _ value: String, isRequired: Bool = false, _ read: @escaping Read) {
    self.name = CommandName(name)!
    syntax = value.isEmpty ? name : "\(name) \(value)"
    self.isRequired = isRequired
    self.read = read
  }

  typealias Path<Value> = any WritableKeyPath<Request, Value> & Sendable

  static func flag(_ name: String, _ path: Path<Bool>) -> Option {
    Option(name, "") { request, _, _ in request[keyPath: path] = true }
  }

  /// - Parameter lasting: it is at least a millisecond.
  static func duration(
    _ name: String, _ path: Path<Interval?>, lasting: Bool = false, isRequired: Bool = false
  ) -> Option {
    Option(name, "d", isRequired: isRequired) { request, reader, call throws(CommandError) in
      let value = try reader.duration()
      request[keyPath: path] = lasting ? try call.lasting(value, name) : value
    }
  }

  static func duration(
    _ name: String, _ path: Path<Interval>, lasting: Bool = false
  ) -> Option {
    Option(name, "d") { request, reader, call throws(CommandError) in
      let value = try reader.duration()
      request[keyPath: path] = lasting ? try call.lasting(value, name) : value
    }
  }

  static func integer(
    _ name: String, _ path: Path<Int64?>, in range: ClosedRange<Int64>, value: String = "n",
    isRequired: Bool = false
  ) -> Option {
    Option(name, value, isRequired: isRequired) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.integer(in: range)
    }
  }

  /// Any bytes up to a length.
  static func text(
    _ name: String, _ value: String, _ path: Path<[UInt8]?>, atMost most: Int
  ) -> Option {
    Option(name, value) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.text(atMost: most)
    }
  }

  /// Bytes that are handed on, up to `max-payload-length`.
  static func payload(_ path: Path<[UInt8]?>) -> Option {
    Option("PAYLOAD", "!bytes") { request, reader, call throws(CommandError) in
      request[keyPath: path] = try call.payload(try reader.value(), "PAYLOAD")
    }
  }

  /// The name of something else.
  static func key(_ name: String, _ value: String, _ path: Path<[UInt8]?>) -> Option {
    Option(name, value) { request, reader, call throws(CommandError) in
      request[keyPath: path] = Array(try call.key(try reader.value(), name))
    }
  }

  static func choice<T: RawRepresentable & CaseIterable & SendableMetatype>(
    _ name: String, _ path: Path<T>
  ) -> Option where T.RawValue == String {
    Option(name, choices(T.self)) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.choice()
    }
  }

  static func choice<T: RawRepresentable & CaseIterable & SendableMetatype>(
    _ name: String, _ path: Path<T?>
  ) -> Option where T.RawValue == String {
    Option(name, choices(T.self)) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.choice() as T
    }
  }

  private static func choices<T: RawRepresentable & CaseIterable & SendableMetatype>(_: T.Type)
    -> String
  where T.RawValue == String {
    T.allCases.map(\.rawValue).joined(separator: "|")
  }

  static func switched(_ name: String, _ path: Path<Bool>) -> Option {
    Option(name, choices(Switch.self)) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.choice() as Switch == .on
    }
  }

  static func owner(_ path: Path<Owner>) -> Option {
    Option("OWNER", "none|connection|scope:ID") { request, reader, call throws(CommandError) in
      request[keyPath: path] = try call.owner(try reader.value())
    }
  }

  static func owner(_ path: Path<Owner?>) -> Option {
    Option("OWNER", "none|connection|scope:ID") { request, reader, call throws(CommandError) in
      request[keyPath: path] = try call.owner(try reader.value())
    }
  }

  static func generation(_ path: Path<Generation?>, isRequired: Bool = false) -> Option {
    Option("GENERATION", "g", isRequired: isRequired) { request, reader, _ throws(CommandError) in
      request[keyPath: path] = try reader.generation()
    }
  }
}

extension Call {
  /// Reads options from `index` on.
  func read<Request>(
    _ options: [Option<Request>], from index: Int, into request: inout Request
  ) throws(CommandError) {
    var reader = self.options(from: index)
    while let name = try reader.next() {
      guard let option = options.first(where: { $0.name == name }) else { throw reader.unknown() }
      try option.read(&request, &reader, self)
    }
  }
}
