/// The commands that bind something to the connection that they come from. The gateway has one for
/// all requests, so there they would bind it to everybody, until the gateway reconnects.
///
/// Tests/Integration/test_schema.py compares the lists with the daemon's command table.
enum SharedConnection {
  private static let bound: Set = ["GATE TAKE", "SCOPE HANDLE", "SCOPE UNHANDLE"]

  /// The commands with the option OWNER, and the fewest arguments before their options.
  private static let withOwner = [
    "COUNTDOWN START": 1, "DEBOUNCE CALL": 2, "GATE CHECK": 2, "HUD SHOW": 1, "NAV PRESENT": 2,
    "NAV PUSH": 2, "ONCE BEGIN": 1, "PAGE APPEAR": 1, "SCOPE OPEN": 1, "TIMER SET": 1,
  ]

  /// Returns the reason why a command cannot be sent on a shared connection; nil if it can.
  static func problem(_ words: [String]) -> Problem? {
    let name = words.prefix(2).map { $0.uppercased() }.joined(separator: " ")
    if bound.contains(name) {
      return refusal("\(name) is for one connection", "send it")
    }
    if let count = withOwner[name], has("OWNER", "CONNECTION", in: words.dropFirst(2 + count)) {
      return refusal(
        "OWNER connection ends an entity with its connection",
        "use OWNER scope:ID, of a scope with a TTL, or send it")
    }
    if name == "EVENTS SINCE",
      words.dropFirst(3).contains(where: { $0.uppercased() == "SUBSCRIBED" })
    {
      return refusal(
        "SUBSCRIBED is about the subscriptions of one connection", "use MATCH, or send it")
    }
    return nil
  }

  private static func has(_ option: String, _ value: String, in words: ArraySlice<String>) -> Bool {
    zip(words, words.dropFirst()).contains { $0.uppercased() == option && $1.uppercased() == value }
  }

  private static func refusal(_ what: String, _ remedy: String) -> Problem {
    Problem(
      .forbidden,
      "\(what), and the gateway has one for all requests: \(remedy) over a connection of your own "
        + "to countdownd's socket")
  }
}
