import Wire

/// The words of a command: its name and arguments, then the options that have a value.
package struct Command: Sendable {
  package typealias Options = KeyValuePairs<String, (any CommandWord)?>

  package private(set) var words: [[UInt8]] = []
  /// Whether the command may be sent again if its reply is lost.
  private(set) var isRepeatable = false
  /// Whether the command only reads.
  private(set) var changesNothing = false
  /// Whether the client has made the token, only to send the command again.
  private(set) var hasOwnToken = false

  /// - Parameters:
  ///   - words: omitted if nil.
  ///   - options: omitted if nil; a `Bool` is a flag, sent only if true.
  package init(_ words: [(any CommandWord)?], _ options: Options = [:]) {
    for case let word? in words { self.words += word.words }
    for (name, value) in options {
      switch value {
      case nil: break
      case let isSet as Bool: if isSet { self.words.append(name.bytes) }
      case let value?: for word in value.words { self.words += [name.bytes, word] }
      }
    }
  }

  package init(_ words: (any CommandWord)?..., options: Options = [:]) {
    self.init(words, options)
  }

  /// Creates a command with a token; the client makes one if nil.
  ///
  /// - Parameter isPeek: whether the command changes nothing, and so has no token.
  init(
    _ words: (any CommandWord)?..., options: Options = [:], token: String?, isPeek: Bool = false
  ) {
    self.init(words, options)
    isRepeatable = true
    changesNothing = isPeek
    guard !isPeek else { return }
    hasOwnToken = token == nil
    self.words += ["TOKEN".bytes, (token ?? Self.newToken).bytes]
  }

  /// Whether a code is checked: the view says when another one may be sent, which does not help.
  var isAboutCode: Bool {
    [["COUNTDOWN".bytes, "ATTEMPT".bytes], ["COUNTDOWN".bytes, "PASS".bytes]]
      .contains(Array(words.prefix(2)))
  }

  /// Whether the command is `ONCE DONE` with this result.
  func records(_ result: [UInt8]?) -> Bool {
    words.count > 3 && words[0] == "ONCE".bytes && words[1] == "DONE".bytes && words[3] == result
  }

  static var newToken: String { String(UInt64.random(in: 0 ... .max), radix: 36) }

  /// Creates a command that changes nothing.
  static func reading(_ words: (any CommandWord)?..., options: Options = [:]) -> Command {
    var command = Command(words, options)
    command.isRepeatable = true
    command.changesNothing = true
    return command
  }

  /// Creates a command that changes nothing the second time.
  static func repeatable(_ words: (any CommandWord)?..., options: Options = [:]) -> Command {
    var command = Command(words, options)
    command.isRepeatable = true
    return command
  }
}

/// A value that a command can carry.
package protocol CommandWord: Sendable {
  var bytes: [UInt8] { get }
  var words: [[UInt8]] { get }
}

extension CommandWord {
  package var words: [[UInt8]] { [bytes] }
}

extension String: CommandWord {
  package var bytes: [UInt8] { Array(utf8) }
}

extension [UInt8]: CommandWord {
  package var bytes: [UInt8] { self }
}

extension Int: CommandWord {
  package var bytes: [UInt8] { String(self).bytes }
}

extension Bool: CommandWord {
  /// Empty: a flag is sent as its name only.
  package var bytes: [UInt8] { [] }
}

extension Double: CommandWord {
  /// Written without an exponent, which the protocol rejects; tiny values become ±0.0001.
  package var bytes: [UInt8] {
    let isTiny = self != 0 && magnitude < 1e-4
    return (isTiny ? (self < 0 ? "-0.0001" : "0.0001") : String(self)).bytes
  }
}

extension Duration: CommandWord {
  package var bytes: [UInt8] { String(millisecondsRoundedUp).bytes }
}

extension Date: CommandWord {
  /// Milliseconds since 1970, rounded up, so that nothing is early. A date has no exact
  /// milliseconds, so microseconds are rounded before.
  package var bytes: [UInt8] {
    let microseconds = (timeIntervalSince1970 * 1_000_000).rounded()
    return String(Int64((microseconds / 1_000).rounded(.up))).bytes
  }
}

/// `on` or `off`.
struct Toggle: CommandWord {
  let isOn: Bool

  init(_ isOn: Bool) { self.isOn = isOn }
  package var bytes: [UInt8] { (isOn ? "on" : "off").bytes }
}

/// Several words, or an option that is given several times.
package struct Repeated: CommandWord {
  let texts: [String]

  package init(_ texts: [String]) { self.texts = texts }
  package var bytes: [UInt8] { [] }
  package var words: [[UInt8]] { texts.map(\.bytes) }
}

/// What the generated commands expect as a reply.
extension Client {
  func reply(to command: Command) async throws -> RESPValue {
    let limit = timeLimit
    do {
      return try await send(unchecked: command.words, limit)
    } catch CountdownClientError.unsure(.connectionClosed) where command.isRepeatable {
      return try await repetition(of: command, limit)
    }
  }

  /// Sends a command again whose reply was lost.
  private func repetition(of command: Command, _ limit: TimeLimit?) async throws -> RESPValue {
    do {
      return try await send(unchecked: command.words, limit).asFirstAnswer(to: command)
    } catch  where !command.changesNothing {
      // Whatever keeps the repetition from running, the first one may have run.
      switch error {
      case is CancellationError: throw CountdownClientError.unsure(.cancelled)
      case CountdownClientError.timedOut(let limit):
        throw CountdownClientError.unsure(.timedOut(limit))
      case CountdownClientError.unsure: throw error
      case CountdownClientError.clientClosed: throw CountdownClientError.unsure(.clientClosed)
      // The first one was refused, too.
      case CountdownClientError.server(.invalid, _), CountdownClientError.server(.notPermitted, _):
        throw error
      default: throw CountdownClientError.unsure(.connectionClosed)
      }
    }
  }

  private func ifAny<Value>(
    _ command: Command, _ read: (RESPValue) throws -> Value
  ) async throws -> Value? {
    let reply = try await reply(to: command)
    return reply.isNull ? nil : try read(reply)
  }

  private func expecting<Value>(
    _ what: String, _ command: Command, _ read: (RESPValue) -> Value?
  ) async throws -> Value {
    guard let value = read(try await reply(to: command)) else {
      throw CountdownClientError.protocolViolation("a reply that is not \(what)")
    }
    return value
  }

  func view<View: EntityView>(_ command: Command) async throws -> View {
    try View(try await reply(to: command))
  }

  func viewIfAny<View: EntityView>(_ command: Command) async throws -> View? {
    try await ifAny(command) { try View($0) }
  }

  func answer<View: EntityView>(_ command: Command) async throws -> Answer<View> {
    let view = try View(try await reply(to: command).ofOneView)
    return Answer(view: view, timeHelps: !command.isAboutCode)
  }

  func answerIfAny<View: EntityView>(_ command: Command) async throws -> Answer<View>? {
    try await ifAny(command) { Answer(view: try View($0)) }
  }

  func record<Value: ReplyRecord>(_ command: Command) async throws -> Value {
    Value(try await reply(to: command))
  }

  func recordIfAny<Value: ReplyRecord>(_ command: Command) async throws -> Value? {
    try await ifAny(command) { Value($0) }
  }

  func list<View: EntityView>(_ command: Command) async throws -> Page<View> {
    try Page(try await reply(to: command))
  }

  func done(_ command: Command) async throws -> Bool {
    try await expecting("1 or 0", command) { $0.bool }
  }

  func text(_ command: Command) async throws -> String {
    try await expecting("a text", command) { $0.string }
  }

  func textIfAny(_ command: Command) async throws -> String? {
    try await reply(to: command).string
  }

  func moment(_ command: Command) async throws -> Date {
    try await expecting("a time", command) { Date.value(of: $0) }
  }

  func ok(_ command: Command) async throws { _ = try await reply(to: command) }
}

extension RESPValue {
  /// The reply about several entities, with the fields of the one that refuses, or of the first.
  fileprivate var ofOneView: RESPValue {
    guard case .map(let pairs) = self, let views = self["views"]?.elements else { return self }
    let refusing = views.first { $0["key"]?.bytes == self["refused_by"]?.bytes } ?? views.first
    return .map(pairs + (refusing?.pairs ?? []).filter { self[$0.key.string ?? ""] == nil })
  }

  /// The reply to a command that the client has sent twice, as to the first time.
  fileprivate func asFirstAnswer(to command: Command) -> RESPValue {
    guard case .map(let pairs) = self else { return self }
    switch self["reason"]?.string {
    case Reason.repeated.rawValue where command.hasOwnToken: break
    // The same result, as the first time has recorded it.
    case Reason.duplicate.rawValue where command.records(self["result"]?.bytes): break
    default: return self
    }
    return .map(
      pairs.map {
        switch $0.key.string {
        case "reason": .init($0.key, .null)
        case "accepted": .init($0.key, .boolean(true))
        default: $0
        }
      })
  }
}
