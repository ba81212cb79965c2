import Countdowns
import SeededRandom
import Wire

/// Streams of requests, some of them damaged. However a stream is split, the replies are the same
/// and valid RESP, and no more input is buffered than was received.
package final class RequestFuzz: FuzzTarget {
  package static let name = "requests"

  private static let inserts = Array("*$+-:\r\n\0\"' 0195\u{7F}".utf8)
  package init() {}

  package func input(seed: UInt64) -> [UInt8] {
    var random = SeededGenerator(seed: seed)
    // All commands, or a few families, which then meet each other more often.
    let groups = (0..<random.one(of: [0, 1, 2, 3])).map { _ in
      random.one(of: RequestGrammar.groups)
    }
    let grammar = RequestGrammar(Set(groups))
    var stream: [UInt8] = []
    for _ in 0..<random.one(of: [3, 10, 30, 100]) {
      var request = encode(grammar.command(&random), &random)
      if random.isOne(in: 40) { random.damage(&request, atMost: 2, inserting: Self.inserts) }
      stream += request
    }
    if random.isOne(in: 2) { random.damage(&stream, atMost: 4, inserting: Self.inserts) }
    return stream
  }

  package func check(_ input: [UInt8]) throws {
    let seed = hash(input)
    let whole = Self.conversation(seed)
    whole.receive(input)
    let pieces = Self.conversation(seed)
    var random = SeededGenerator(seed: seed)
    var rest = input[...]
    while !rest.isEmpty {
      let piece = rest.prefix(random.one(of: [1, 1, 2, 3, 17, 100, 5_000]))
      rest = rest.dropFirst(piece.count)
      pieces.receive(Array(piece))
    }
    for conversation in [whole, pieces] { conversation.pass(3_650 * 86_400_000) }
    try Self.compare("the client", whole.said, pieces.said)
    try Self.compare("the listener", whole.heard, pieces.heard)
    guard whole.bufferedBytes <= input.count, pieces.bufferedBytes <= input.count else {
      throw FuzzFailure("more input is kept than came")
    }
  }

  /// Returns the replies to a stream of requests on the settings of a daemon, as texts.
  package static func replies(to input: [UInt8]) throws -> [String] {
    var settings = EngineSettings()
    settings.policies = policies
    settings.throttles = throttles
    settings.maximumLevel = .alert
    let talk = Conversation(seed: 0, settings, movesTime: false)
    talk.receive(input)
    return try replies(talk.said).dropLast().map { "\($0)" }
  }

  /// Returns a conversation; some have limits so small that they are reached.
  private static func conversation(_ seed: UInt64) -> Conversation {
    var settings = EngineSettings()
    settings.policies = policies
    settings.throttles = throttles
    settings.maximumLevel = .alert
    settings.eventsKept = 100
    var limits = RESPLimits()
    if seed % 3 == 0 {
      settings.limits.entities = Int((seed >> 8) % 12) + 1
      settings.limits.entitiesPerUser = Int((seed >> 16) % 12) + 1
      settings.limits.subscriptions = 4
      settings.limits.payloadLength = 64
      settings.limits.scopeDepth = 2
      settings.limits.scopeChildren = 2
      settings.limits.scopeHandlers = 2
      settings.limits.stackPages = 2
    }
    if seed % 4 == 0 {
      limits = RESPLimits(bulkLength: 64, inlineLength: 64, arguments: 8, requestLength: 128)
    }
    return Conversation(seed: seed, settings, limits: limits)
  }

  static let policies: [String: SendPolicy] = {
    var rules = SendPolicy.Rules()
    rules.ladder = [.seconds(60), .seconds(120)]
    rules.windows = [
      .init(limit: 3, length: .seconds(600)), .init(limit: 5, length: .seconds(86_400)),
    ]
    rules.channels = ["sms", "call"]
    rules.validity = .seconds(300)
    rules.attempts = 2
    var other = SendPolicy.Rules()
    other.count = 3
    other.onResend = .replace
    var limited = rules
    limited.lockout = [.seconds(60)]
    limited.limits = ["ip", "range", "all"]
    var bounded = other
    bounded.validity = .seconds(300)
    bounded.refunds = .init(limit: 1, length: .seconds(3_600))
    bounded.guesses = .init(limit: 3, length: .seconds(3_600))
    bounded.attemptLimits = ["ip", "all"]
    let policies = [("p", rules), ("q", other), ("l", limited), ("g", bounded)]
    return policies.reduce(into: [:]) { policies, named in
      policies[named.0] = try? SendPolicy(name: named.0, named.1)
    }
  }()

  static let throttles: [String: LimitRules] = {
    var ip = LimitRules.Rules()
    ip.rate = Throttle.Rate(burst: 2, count: 1, period: .seconds(60))
    var range = LimitRules.Rules()
    range.windows = [.init(limit: 9, length: .days(1))]
    range.droppedSuffixLength = 1
    range.passed = .init(least: 50, of: 2, within: .days(1), block: .seconds(60))
    var all = LimitRules.Rules()
    all.windows = [.init(limit: 100, length: .seconds(600))]
    all.isGlobal = true
    return [("ip", ip), ("range", range), ("all", all)].reduce(into: [:]) { limits, named in
      limits[named.0] = try? LimitRules(named.1)
    }
  }()

  private static func compare(_ who: String, _ whole: [UInt8], _ pieces: [UInt8]) throws {
    let (whole, pieces) = (try replies(whole), try replies(pieces))
    guard whole != pieces else { return }
    let place = zip(whole, pieces).enumerated().first { $1.0 != $1.1 }?.offset
    func excerpt(_ replies: [RESPValue]) -> String {
      "\(replies.dropFirst(place ?? min(whole.count, pieces.count)).prefix(2))"
    }
    throw FuzzFailure(
      "\(who) is told something else when the input comes in pieces:\n\(excerpt(whole))\n"
        + excerpt(pieces))
  }

  /// Decodes replies, which must be RESP. Leaves out those to unsubscribing, which have no order.
  private static func replies(_ bytes: [UInt8]) throws -> [RESPValue] {
    var decoder = ReplyDecoder()
    // One more reply, which an incomplete last reply would swallow.
    decoder.feed(bytes + Array(":7777\r\n".utf8))
    var replies: [RESPValue] = []
    do {
      while let next = try decoder.next() { replies.append(next) }
    } catch {
      throw FuzzFailure("reply \(replies.count) is not RESP: \(error)")
    }
    guard replies.last == .integer(7777) else { throw FuzzFailure("the last reply is not whole") }
    return replies.filter { $0.elements?.first?.string?.hasSuffix("unsubscribe") != true }
  }
}
