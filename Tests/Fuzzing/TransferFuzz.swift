import Countdowns
import SeededRandom
import Wire

/// An engine that continues with the state of another one: after a random history, both say the
/// same, and the same future follows. The input has a line for each command, `wait` with
/// milliseconds, and `transfer` where the other engine continues.
package final class TransferFuzz: FuzzTarget {
  package static let name = "transfer"

  private static let families: [EntityKind] = EntityKind.allCases
  private static let transfer = Array("transfer".utf8)
  private let grammar = RequestGrammar(Set(families.map { .entities($0) }))

  /// Commands that random ones rarely precede or follow as they must.
  private static let rare = [
    "GATE CHECK a pay TTL 1h", "GATE OPEN a TTL 1h", "GATE TAKE a", "GATE OPEN b", "GATE TAKE b",
    "SCOPE OPEN a OWNER connection", "SCOPE OPEN b PARENT a TTL 1h", "SCOPE HANDLE b *",
    "TIMER SET x 1h OWNER scope:b", "COUNTDOWN START x POLICY p OWNER scope:a",
    "HUD SHOW x OWNER scope:a", "NAV PUSH s v PAGE", "NAV PUSH s w PAGE DURATION 1h",
  ].map { Array($0.utf8) }

  /// Closes more scopes than a command closes before its reply.
  private static let longClosing: [[UInt8]] =
    ([["SCOPE OPEN top"]]
    + (0..<300).map {
      ["SCOPE OPEN below-\($0) PARENT top", "TIMER SET t-\($0) 1h OWNER scope:below-\($0)"]
    } + [["SCOPE CLOSE top"]]).joined().map { Array($0.utf8) }

  package init() {}

  package func input(seed: UInt64) -> [UInt8] {
    var random = SeededGenerator(seed: seed)
    var text: [UInt8] = []
    func line(_ bytes: [UInt8]) { text += bytes + [0x0A] }
    func wait(_ milliseconds: Int) { line(Array("wait \(milliseconds)".utf8)) }
    for _ in 0..<random.one(of: [3, 30, 100]) {
      let isRare = random.isOne(in: 8)
      line(isRare ? random.one(of: Self.rare) : inline(grammar.command(&random)))
      if random.isOne(in: 3) { wait(random.one(of: [0, 1, 250, 1_000, 60_000])) }
    }
    if random.isOne(in: 10) { Self.longClosing.forEach(line) }
    line(Self.transfer)
    for _ in 0..<8 {
      line(inline(grammar.command(&random)))
      wait(random.one(of: [0, 1, 999, 5_000, 3_600_000]))
    }
    return text
  }

  package func check(_ input: [UInt8]) throws {
    let (before, after) = Self.parts(of: input)
    let old = try play(before)
    guard !old.isOver else { return }
    let new = conversation()
    new.host.clock.advance(by: old.now.boot.microseconds - new.now.boot.microseconds)
    let bytes = old.dispatcher.engine.wholeState().bytes(offset: 0)
    guard let state = WholeState(bytes: bytes, offset: 0),
      let refused = new.dispatcher.engine.restore(state, at: new.now), refused.isEmpty
    else { throw FuzzFailure("the state cannot be restored") }
    for conversation in [old, new] { _ = conversation.takeHeard() }
    try compare(old, new, "after the transfer")
    for conversation in [old, new] { conversation.pass(0) }
    try compare(old, new, "once what was due has happened")
    for (number, line) in after.enumerated() {
      for conversation in [old, new] { try Self.follow(line, conversation) }
      // What falls due at once comes before the next command.
      if Self.milliseconds(line) != nil { try compare(old, new, "after line \(number + 1)") }
      guard !old.isOver else { return }
    }
  }

  /// Returns how many entities of each kind there are at the transfer.
  package func held(_ input: [UInt8]) throws -> [EntityKind: Int] {
    let engine = try play(Self.parts(of: input).before).dispatcher.engine
    return Dictionary(uniqueKeysWithValues: Self.families.map { ($0, engine.count($0)) })
  }

  private func conversation() -> Conversation {
    var settings = EngineSettings()
    settings.policies = RequestFuzz.policies
    settings.throttles = RequestFuzz.throttles
    settings.maximumLevel = .alert
    return Conversation(seed: 0, settings, movesTime: false)
  }

  private func play(_ lines: [ArraySlice<UInt8>]) throws -> Conversation {
    let conversation = conversation()
    for line in lines { try Self.follow(line, conversation) }
    return conversation
  }

  private static func follow(_ line: ArraySlice<UInt8>, _ conversation: Conversation) throws {
    if let pause = milliseconds(line) {
      conversation.pass(pause)
    } else {
      conversation.receive(line + Array("\r\n".utf8))
    }
  }

  /// Returns for how long a line waits; nil if it is a command.
  private static func milliseconds(_ line: ArraySlice<UInt8>) -> Int64? {
    let words = line.split(separator: 0x20)
    guard words.count == 2, words[0].elementsEqual("wait".utf8) else { return nil }
    return Int64(String(decoding: words[1], as: UTF8.self))
  }

  private static func parts(
    of input: [UInt8]
  ) -> (before: [ArraySlice<UInt8>], after: [ArraySlice<UInt8>]) {
    let parts = input.split(separator: 0x0A).split(
      separator: transfer[...], maxSplits: 1, omittingEmptySubsequences: false)
    return (Array(parts[0]), parts.count > 1 ? Array(parts[1]) : [])
  }

  private func compare(_ old: Conversation, _ new: Conversation, _ when: String) throws {
    let engines = [old, new].map(\.dispatcher.engine)
    guard engines[0].armedCount == engines[1].armedCount else {
      throw FuzzFailure("\(when): \(engines.map(\.armedCount)) timers")
    }
    let said = try [old, new].map { conversation in
      let before = conversation.said.count
      for kind in Self.families {
        let family = "\(kind.name)".uppercased()
        conversation.receive(Array("\(family) LIST LIMIT 1000\r\n".utf8))
        for key in ["a", "b", "键"] where [.countdown, .hud].contains(kind) {
          conversation.receive(encode([Array(family.utf8), Array("WHY".utf8), Array(key.utf8)]))
        }
      }
      return try Self.replies(Array(conversation.said.dropFirst(before)))
    }
    guard said[0] == said[1] else {
      let texts = said.map { $0.joined(separator: "\n") }
      throw FuzzFailure("\(when):\n\(texts.joined(separator: "\n---\n"))")
    }
    // Entities that are due at the same moment may come in another order.
    let events = [old, new].map { $0.takeHeardEvents() }
    guard events[0] == events[1] else {
      throw FuzzFailure("\(when):\n\(events.map { $0.joined() }.joined(separator: "\n---\n"))")
    }
  }

  /// Returns replies as texts, the entities of each listing sorted: a table that was larger before
  /// may take its places in another order.
  private static func replies(_ bytes: [UInt8]) throws -> [String] {
    var decoder = ReplyDecoder()
    decoder.feed(bytes)
    var replies: [String] = []
    while let reply = try decoder.next() {
      let parts = reply.elements ?? []
      if parts.count == 2, let listed = parts[1].elements {
        replies += ["\(parts[0])"] + listed.map { "\($0)" }.sorted()
      } else {
        replies.append("\(reply)")
      }
    }
    return replies
  }
}

extension Conversation {
  /// Returns what the listener has received since the last call, sorted, without sequence numbers.
  fileprivate func takeHeardEvents() -> [String] {
    var decoder = ReplyDecoder()
    decoder.feed(takeHeard())
    var events: [String] = []
    while let event = try? decoder.next() {
      guard case .push(let parts) = event, let line = parts.last?.string else { continue }
      var words = line.split(separator: ",").map(String.init)
      words.removeAll { $0.contains("\"seq\":") }
      events.append(words.joined(separator: ",") + "\n")
    }
    return events.sorted()
  }
}
