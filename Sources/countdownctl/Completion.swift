import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Wire

/// Shell completions of arguments: names from the running daemon, none without one.
enum Completion {
  /// A shell must not wait long for a busy daemon.
  private static let patience = Duration.milliseconds(300)
  private static let maximum = 200

  /// Returns a completion of the keys of a kind.
  static func keys(_ family: String) -> CompletionKind {
    .custom { arguments, _, prefix in
      let pattern = prefix.map { "*?[]\\".contains($0) ? "\\\($0)" : String($0) }.joined() + "*"
      let page = await reply(
        [family, "LIST", "MATCH", pattern, "LIMIT", String(maximum)], arguments)
      let keys = (try? page?.page.elements)?.compactMap { $0["key"]?.string } ?? []
      // A screen is listed once for each of its HUDs; a key with a line feed would look like two.
      return Set(keys.filter { $0.printable == $0 }).sorted()
    }
  }

  /// The names of policies, from the daemon; from the configuration files if no daemon runs or this
  /// user may not ask it.
  static let policies = CompletionKind.custom { arguments, _, _ in
    guard case .map(let settings)? = await reply(["CONFIG", "GET", "policies.*.every"], arguments)
    else { return (try? Configuration.load().engine.policies.keys.sorted()) ?? [] }
    return settings.compactMap { setting in
      setting.key.string.map { String($0.dropFirst("policies.".count).dropLast(".every".count)) }
    }
  }

  /// Returns the daemon's reply; nil without one.
  private static func reply(_ words: [String], _ arguments: [String]) async -> RESPValue? {
    let option = "--socket"
    let socket = arguments.indices.lazy.compactMap { index -> String? in
      let argument = arguments[index]
      if argument.hasPrefix(option + "=") { return String(argument.dropFirst(option.count + 1)) }
      return argument == option && index + 1 < arguments.count ? arguments[index + 1] : nil
    }.first
    return try? await Session(socket: socket, patience: patience).reply(words)
  }
}
