import Wire

/// The words of a command: its name and arguments, then the options that have a value.
package struct Command: Sendable {
  package typealias Options = KeyValuePairs<String, (any CommandWord)?>

  package let words: [[UInt8]]

  /// - Parameter options: omitted if nil; a `Bool` is a flag, sent only if true.
  package init(_ words: [any CommandWord], _ options: Options) {
    var all = words.map(\.bytes)
    for (name, value) in options {
      switch value {
      case nil: break
      case let isSet as Bool: if isSet { all.append(name.bytes) }
      case let value?: all += [name.bytes, value.bytes]
      }
    }
    self.words = all
  }

  package init(_ words: any CommandWord..., options: Options = [:]) {
    self.init(words, options)
  }
}

/// A value that a command can carry.
package protocol CommandWord: Sendable {
  var bytes: [UInt8] { get }
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

extension Owner: CommandWord {
  package var bytes: [UInt8] { text.bytes }
}

extension CountdownClient {
  /// Sends a command whose reply is a view.
  func view<View: EntityView>(
    _ words: any CommandWord..., options: Command.Options = [:]
  ) async throws -> View {
    try View(try await send(Command(words, options)))
  }

  /// Sends a command whose reply is a view or null.
  func viewIfAny<View: EntityView>(
    _ words: any CommandWord..., options: Command.Options = [:]
  ) async throws -> View? {
    let reply = try await send(Command(words, options))
    return reply.isNull ? nil : try View(reply)
  }

  /// Sends a command whose reply is 1 or 0.
  func flag(
    _ words: any CommandWord..., options: Command.Options = [:]
  ) async throws -> Bool {
    guard let flag = try await send(Command(words, options)).bool else {
      throw CountdownClientError.protocolViolation("a reply that is neither 1 nor 0")
    }
    return flag
  }

  /// Sends a `LIST` command.
  func page<View: EntityView>(
    _ family: String, cursor: String, matching: String?, owner: String? = nil, limit: Int?
  ) async throws -> Page<View> {
    let command = Command(
      [family, "LIST"],
      [
        "MATCH": matching, "OWNER": owner, "CURSOR": cursor == "0" ? nil : cursor,
        "LIMIT": limit,
      ])
    return try Page(try await send(command))
  }
}
