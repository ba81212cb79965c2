import ArgumentParser
import Countdowns

/// Suggests corrections for a misspelled subcommand.
enum UnknownCommand {
  /// Returns the message for the first word that names no subcommand but should; nil if none.
  static func explanation(of arguments: [String]) -> String? {
    var command: any ParsableCommand.Type = Countdownctl.self
    var path = "countdownctl"
    var words = arguments.prefix { $0 != "--" }
    while let word = words.popFirst() {
      if word.hasPrefix("-") {
        if ["--socket", "--wait"].contains(word) { _ = words.popFirst() }
        continue
      }
      let subcommands = command.configuration.subcommands
      guard !subcommands.isEmpty, word != "help" else { return nil }
      guard let next = subcommands.first(where: { names($0).contains(word) }) else {
        let found = suggestions(for: word, among: subcommands).map { "'\($0)'" }
        let guess = found.isEmpty ? "" : " Did you mean \(found.joined(separator: " or "))?"
        return "unknown command '\(word)'.\(guess) '\(path) --help' lists all."
      }
      command = next
      path += " " + next._commandName
    }
    return nil
  }

  /// Returns the nearest name, or else the families that have a subcommand of exactly that name.
  private static func suggestions(
    for word: String, among subcommands: [any ParsableCommand.Type]
  ) -> [String] {
    if let best = Suggestion.best(for: word, among: subcommands.map { $0._commandName }) {
      return [best]
    }
    return subcommands.filter { $0.configuration.subcommands.contains { names($0).contains(word) } }
      .map { "\($0._commandName) \(word)" }
  }

  private static func names(_ command: any ParsableCommand.Type) -> [String] {
    [command._commandName] + command.configuration.aliases
  }
}
