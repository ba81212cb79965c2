import Countdowns
import SeededRandom
import Testing

/// Random requests and pauses. (The simulation plays whole histories.)
@Suite struct HUDRandomTests {
  @Test(arguments: 0..<20)
  func pausesAddExactlyThePausedTime(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<50 {
      let request = Presentation.Request.random(using: &generator)
      let plain = HUDTimes(request, pauses: [], until: 200)
      let cuts = (0..<3).map { _ in Int64.random(in: 0..<200, using: &generator) }.sorted()
      let paused = HUDTimes(request, pauses: cuts, until: 200)
      for (event, moment) in plain.times {
        // A pause at the moment of an event comes after the event: the HUD is settled first.
        let before = Int64(cuts.filter { $0 < moment }.count)
        #expect(paused.times[event] == moment + before * 1_000, "seed \(seed), \(event), \(cuts)")
      }
    }
  }
}

/// The time of each event of a HUD that is dismissed at a fixed moment.
private struct HUDTimes {
  private(set) var times: [String: Int64] = [:]

  /// Each pause lasts a second. Moments are in milliseconds, not counting pauses.
  init(_ request: Presentation.Request, pauses: [Int64], until dismissal: Int64) {
    var now = Instant(microseconds: 0)
    var machine: Presentation!
    var times: [String: Int64] = [:]
    let emit = { (occurrence: Presentation.Occurrence) in
      times[occurrence.event.name] = now.microseconds / 1_000
    }
    machine = Presentation(
      request, generation: Generation(1), owner: .none, at: now, emit)
    func advance(to moment: Instant) {
      while let next = machine.nextExpiry, next <= moment {
        now = max(now, next)
        machine.expire(at: now, emit)
      }
      now = moment
    }
    var shift: Int64 = 0
    for pause in pauses {
      advance(to: Instant(microseconds: (pause + shift) * 1_000))
      machine.pause(at: now, emit)
      advance(to: now + .seconds(1))
      machine.resume(at: now, emit)
      shift += 1_000
    }
    advance(to: Instant(microseconds: (dismissal + shift) * 1_000))
    machine.dismiss(at: now, emit)
    advance(to: now + .seconds(100))
    times["paused"] = nil
    times["resumed"] = nil
    self.times = times
  }
}

extension Presentation.Request {
  static func random(using generator: inout SeededGenerator) -> Presentation.Request {
    func time(_ choices: [Int64]) -> Interval {
      .milliseconds(choices.randomElement(using: &generator)!)
    }
    return Presentation.Request(
      kind: .allCases.randomElement(using: &generator)!,
      status: Bool.random(using: &generator) ? [UInt8](repeating: 0x61, count: 2) : nil,
      grace: time([0, 0, 10, 50]), minimum: time([0, 20, 100]),
      maximum: Bool.random(using: &generator) ? time([0, 30, 80, 200]) : nil,
      fadeIn: time([0, 5, 15]), fadeOut: time([0, 5, 15]),
      minimumFrom: .allCases.randomElement(using: &generator)!,
      early: .allCases.randomElement(using: &generator)!,
      mask: Bool.random(using: &generator) ? .none : .black, messageMinimum: time([0, 40, 300]))
  }
}
