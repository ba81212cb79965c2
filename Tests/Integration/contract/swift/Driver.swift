// The driver of the Swift client; contract_tools.py has what a driver is.
import CountdownClient
import Foundation
import Synchronization

struct Operation: Decodable, Sendable {
  let id: Int
  let `do`: String
  let call, key, token, since: String?
  let isCancelled: Bool?
  let withinMs, timeoutMs, of, count: Int?
  let words, patterns: [String]?
}

struct Outcome: Encodable, Sendable {
  var id = 0
  var value, text, name, key, cursor: String?
  var `is`: [String]?
  var end: Bool?
  var seq: Int?
  var timeoutMs: Double?
}

/// How many events a watch may still report.
actor Turns {
  private var left: Int
  private var waiting: CheckedContinuation<Void, Never>?

  init(_ left: Int) { self.left = left }

  func add(_ count: Int) {
    left += count
    waiting?.resume()
    waiting = nil
  }

  func take() async {
    while left == 0 { await withCheckedContinuation { waiting = $0 } }
    left -= 1
  }
}

@main struct Driver {
  private var client = Client.unconnected()
  private var tasks: [Int: Task<Void, Never>] = [:]
  private var turns: [Int: Turns] = [:]
  private static let printing = Mutex(())

  static func main() async throws {
    var driver = Driver()
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    while let line = readLine() {
      try await driver.handle(decoder.decode(Operation.self, from: Data(line.utf8)))
    }
    // It ends by itself, so nothing of it goes on.
    await driver.client.close()
    for turns in driver.turns.values { await turns.add(1) }
    for task in driver.tasks.values { await task.value }
  }

  private mutating func handle(_ its: Operation) async {
    var outcome = Outcome()
    switch its.do {
    case "open":
      let limit = its.timeoutMs.map(Duration.milliseconds)
      let own = limit.map { Client.unconnected(connectTimeout: $0, timeout: $0) }
      client = own ?? .unconnected()
      outcome.timeoutMs = client.timeout.map { $0 / .milliseconds(1) }
    case "call":
      tasks[its.id] = Task { [client] in Self.say(its, await Self.outcome(of: its, client)) }
      return
    case "watch":
      let (events, turns) = (
        client.events(channels(of: its), since: its.since), Turns(its.count ?? .max)
      )
      self.turns[its.id] = turns
      tasks[its.id] = Task { await Self.follow(its, events, turns) }
      return
    case "subscribe":
      let subscription = client.subscription()
      for channel in channels(of: its) { subscription.add(channel) }
      tasks[its.id] = Task {
        await Self.follow(its, subscription.events, Turns(.max))
        withExtendedLifetime(subscription) {}
      }
      return
    case "cancel", "end": its.of.map { tasks[$0]?.cancel() }
    case "more": if let of = its.of { await turns[of]?.add(its.count ?? 0) }
    case "close": await client.close()
    default: fatalError(its.do)
    }
    Self.say(its, outcome)
  }

  private func channels(of its: Operation) -> [EventChannel] {
    (its.patterns ?? []).map { pattern in
      let parts = pattern.split(separator: ":", maxSplits: 1).map(String.init)
      let kind = CountdownEvent.Kind(rawValue: parts[0])
      return parts[1].contains("*") ? .matching(kind, parts[1]) : .init(kind, parts[1])
    }
  }

  private static func say(_ its: Operation, _ outcome: Outcome) {
    var outcome = outcome
    outcome.id = its.id
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    guard let line = try? encoder.encode(outcome) else { fatalError("\(outcome)") }
    printing.withLock { _ in FileHandle.standardOutput.write(line + Data("\n".utf8)) }
  }

  private static func failure(_ error: any Error, _ its: Operation) -> Outcome {
    Outcome(text: "\(error)", is: kinds(of: error, its))
  }

  private static func kinds(of error: any Error, _ its: Operation) -> [String] {
    var kinds = error.isCancellation ? ["cancelled"] : []
    guard let error = error as? CountdownClientError else { return kinds }
    if error.mayHaveRun { kinds.append("unsure") }
    switch error {
    case .server(let code, _): kinds.append(code.rawValue)
    case .daemonNotRunning: kinds.append("down")
    case .unsure(.timedOut): kinds.append("timeout")
    // `withTimeout` is the program's own deadline, whatever the daemon does.
    case .timedOut: kinds += its.withinMs == nil ? ["timeout", "down"] : ["timeout"]
    case .clientClosed, .unsure(.clientClosed): kinds.append("closed")
    case .invalidUse: kinds.append("argument")
    default: break
    }
    return kinds
  }

  private static func outcome(of its: Operation, _ client: Client) async -> Outcome {
    if its.isCancelled == true { withUnsafeCurrentTask { $0?.cancel() } }
    do {
      guard let limit = its.withinMs else { return Outcome(value: try await call(its, client)) }
      return try await client.withTimeout(.milliseconds(limit)) {
        Outcome(value: try await call(its, client))
      }
    } catch {
      return failure(error, its)
    }
  }

  private static func call(_ its: Operation, _ client: Client) async throws -> String {
    let key = its.key ?? "k"
    switch its.call {
    case "start":
      return name(try await client.countdown.start(key, count: 60, token: its.token).decision)
    case "done":
      return name(try await client.once.done(key, result: Array("r".utf8), generation: 1).decision)
    case "set": return try await client.timer.set(key, after: .seconds(1)).key
    case "ping": return try await client.send("PING").string ?? ""
    // What is wrong with other calls, the compiler finds.
    case "wrong", "missing": return try await client.send([]).string ?? ""
    case "raw": return try await client.send(its.words ?? []).string ?? ""
    default: fatalError(its.call ?? "")
    }
  }

  private static func name(_ decision: Decision) -> String {
    switch decision {
    case .accepted: "accepted"
    case .repeated: "repeated"
    case .refused: "refused"
    }
  }

  private static func follow(_ its: Operation, _ events: CountdownEvents, _ turns: Turns) async {
    var events = events.makeAsyncIterator()
    do {
      while true {
        await turns.take()
        guard let event = try await next(&events) else { break }
        say(
          its,
          Outcome(name: event.name.rawValue, key: event.key, cursor: event.cursor, seq: event.seq))
      }
      say(its, Outcome(end: true))
    } catch {
      var outcome = failure(error, its)
      outcome.end = true
      say(its, outcome)
    }
  }

  /// Leaves out what only this client tells of its connection.
  private static func next(_ events: inout CountdownEvents.AsyncIterator) async throws
    -> CountdownEvent?
  {
    while true {
      let event = try await events.next()
      if event?.name != .disconnected, event?.name != .resubscribed { return event }
    }
  }
}
