import ArgumentParser
import CountdownClient
import Wire

struct Raw: SessionCommand {
  static let configuration = CommandConfiguration(
    abstract: "Send any command of the protocol and print the reply, as redis-cli does.",
    discussion: """
      Without arguments, commands are read from standard input, one per line, with quotes as in \
      redis-cli. On a terminal, replies are printed with their types; into a pipe, without. Exit \
      status 4 if a reply was an error.

      Examples:
        countdownctl raw COUNTDOWN GET +4512345678
        countdownctl raw SUBSCRIBE countdown:+4512345678
        countdownctl raw < commands.txt
      """)

  // Declared again under other names. ArgumentParser reads a shared group in the parent command
  // only, and the parent does not see the arguments of a subcommand that passes them through.
  @Option(
    name: .customLong("socket"), help: GlobalOptions.socketHelp, completion: .file())
  var ownSocket: String?

  @Option(
    name: .customLong("wait"), help: GlobalOptions.waitHelp,
    transform: duration)
  var ownWait: Duration?

  @Flag(name: .customLong("json"), help: "Print each reply as one line of JSON.")
  var ownJSON = false

  @ParentCommand var parent: Countdownctl

  var global: GlobalOptions {
    var options = parent.global
    if let ownSocket { options.socket = ownSocket }
    if let ownWait { options.wait = ownWait }
    if ownJSON { options.json = true }
    return options
  }

  @Argument(
    parsing: .captureForPassthrough,
    help: .init("The command and its arguments.", valueName: "word"))
  var words: [String] = []

  func validate() throws {
    // Help flags are passed through, too; no command has these names.
    if let first = words.first, ["-h", "--help"].contains(first) {
      throw CleanExit.helpRequest(self)
    }
  }

  func run(_ session: Session) async throws {
    var hadError = false
    if words.isEmpty {
      while let line = readLine() {
        guard let words = try? InlineWords.split(line) else {
          Output.error("unbalanced quotes: \(line)", code: "USAGE")
          hadError = true
          continue
        }
        guard !words.isEmpty, words[0].first != UInt8(ascii: "#") else { continue }
        if try await execute(words, session) { hadError = true }
      }
    } else {
      // ArgumentParser leaves the terminator in.
      let command = words.first == "--" ? Array(words.dropFirst()) : words
      guard !command.isEmpty else {
        throw ValidationError("no command given; such as: countdownctl raw COMMAND COUNT")
      }
      hadError = try await execute(command.map { Array($0.utf8) }, session)
    }
    if hadError { throw ExitCode.serverError }
  }

  /// Returns whether the reply is an error.
  private func execute(_ words: [[UInt8]], _ session: Session) async throws -> Bool {
    let name = String(decoding: words[0], as: UTF8.self).uppercased()
    if Client.answersWithPushes(words[0]) || name == "MONITOR" {
      try await session.stream(words) { print($0, session) }
      return false
    }
    do {
      print(try await session.reply(words), session)
      return false
    } catch CountdownClientError.server(let code, let message) {
      print(.error(message.isEmpty ? "\(code)" : "\(code) \(message)"), session)
      return true
    }
  }

  private func print(_ value: RESPValue, _ session: Session) {
    if session.json {
      if case .error(let text) = value {
        Output.line(RESPValue.object(["error": text]).json)
      } else {
        Output.line(value.json)
      }
    } else if Output.isTerminal {
      Output.line(RedisText.formatted(value))
    } else {
      Output.bytes(RedisText.plain(value) + [0x0A])
    }
  }
}

extension Session {
  /// Sends a command and prints all output, until the daemon closes the connection or Ctrl-C.
  ///
  /// Prints on the event loop. While the output blocks, nothing is read from the socket, so the
  /// daemon's output limit applies and no queue grows here.
  func stream(
    _ words: [[UInt8]], print: @escaping @Sendable (RESPValue) -> Void
  ) async throws {
    let (ends, end) = AsyncStream.makeStream(of: CountdownClientError.self)
    let connection = try await Connection.open(path: path, name: "countdownctl") { value in
      if case .error(let text) = value {
        end.yield(CountdownClientError(reply: text))
      } else {
        print(value)
      }
    }
    defer { connection.close() }
    connection.sendWithoutReplies([words])
    Task {
      await connection.closed()
      end.yield(.unsure(.connectionClosed))
    }
    for await error in ends { throw error }
  }
}
