import SeededRandom
import Testing

@testable import Countdowns

/// A START with only a plan takes a shorter way while nothing is watched, and its record comes from
/// a template. Replies, events and stored bytes are those of the general way.
@Suite struct FastPathTests {
  private let settings: EngineSettings = {
    var settings = EngineSettings()
    settings.eventsKept = 10_000
    return settings
  }()

  /// - Parameter subscription: a pattern that makes engines take the general way.
  private func desk(_ subscription: String?) -> Desk {
    let desk = Desk(settings)
    desk.engine.noteChanges()
    desk.connect(2)
    if let subscription { desk.subscribe(2, pattern: subscription, walk: false) }
    return desk
  }

  @Test(arguments: 0..<20)
  func aPlainStartIsLikeAnyOther(seed: UInt64) throws {
    let desks = [desk(nil), desk("countdown:nothing-has-this-key"), desk("countdown:*")]
    var generator = SeededGenerator(seed: seed)
    var time: Int64 = 0
    for _ in 0..<200 {
      let key = "\(Int.random(in: 0..<12, using: &generator))"
      let plan = Countdown.Plan(
        count: .random(in: 1...3, using: &generator),
        every: .milliseconds([1, 250, 1_000].randomElement(using: &generator)!),
        firesAtOnce: Int.random(in: 0..<5, using: &generator) == 0)!
      let client = Client(connection: 1, uid: .random(in: 0...2, using: &generator))
      let isBrief = Bool.random(using: &generator)
      time += [0, 0, 100, 700].randomElement(using: &generator)!
      let replies = try desks.map { desk in
        desk.at(time)
        var start = CountdownStart(plan)
        let answer = try desk.with(key) {
          try desk.engine.start($0, &start, by: client, at: desk.now)
        }
        guard isBrief else { return "\(desk.engine.view(of: answer, at: desk.now))" }
        return "\(answer.decision) \(desk.engine.brief(of: answer, at: desk.now))"
      }
      #expect(Set(replies).count == 1)
      let offset = Int64.random(in: -1_000...1_000, using: &generator)
      let batches = desks.map { desk in
        let batch = ChangeWriter(offset: offset)
        desk.engine.takeChanges(into: batch)
        return batch.bytes
      }
      // Ticks, which only a watched countdown has, take sequence numbers.
      #expect(batches[0] == batches[1])
      #expect(records(batches[0]) == records(batches[2]))
    }
  }

  private func records(_ batch: [UInt8]) -> [[UInt8]] {
    var records: [[UInt8]] = []
    _ = ChangeEntry.forEach(of: batch[...]) { entry in
      switch entry {
      case .current(_, let place, let bytes): records.append([UInt8(place)] + bytes)
      case .gone(_, let place): records.append([UInt8(place)])
      case .events, .clocks: break
      }
    }
    return records
  }
}
