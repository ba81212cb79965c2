import Testing
import TimerWheel

/// Seeded random histories, step by step against the naive model.
@Suite struct OracleTests {
  /// How far ahead deadlines lie: all near, level by level, or anywhere in 64 bits.
  enum Spread: CaseIterable {
    case sameTick, near, mixed, edges, whole

    func deadline(from now: UInt64, _ random: inout SeededGenerator) -> UInt64 {
      switch self {
      case .sameTick: return now &+ UInt64.random(in: 0...1, using: &random)
      case .near: return now + UInt64.random(in: 0...5_000, using: &random)
      case .mixed:
        let bits = UInt64.random(in: 0...40, using: &random)
        return now + UInt64.random(in: 0...(1 << bits), using: &random)
      case .edges:
        // Just before, at and just after the first tick of a slot, on every level.
        let shift = UInt64(6 * Int.random(in: 0...9, using: &random))
        let edge = ((now >> shift) + UInt64.random(in: 1...65, using: &random)) << shift
        return edge &+ UInt64.random(in: 0...2, using: &random) &- 1
      case .whole: return UInt64.random(in: 0...UInt64.max, using: &random)
      }
    }

    func step(_ random: inout SeededGenerator) -> UInt64 {
      switch self {
      case .sameTick: return UInt64.random(in: 0...1, using: &random)
      case .near: return UInt64.random(in: 0...300, using: &random)
      case .mixed, .edges: return 1 << UInt64.random(in: 0...36, using: &random)
      case .whole: return UInt64.random(in: 0...(1 << 60), using: &random)
      }
    }
  }

  @Test(arguments: Spread.allCases)
  func agreesWithASortedArray(_ spread: Spread) {
    for seed in 0..<600 as Range<UInt64> {
      History(seed: seed, spread: spread).play(steps: 120)
    }
  }
}

/// One random history: every public operation, between and within advances, with small budgets.
private struct History {
  let seed: UInt64
  let spread: OracleTests.Spread

  func play(steps: Int) {
    var random = SeededGenerator(seed: seed)
    let start = seed % 3 == 0 ? 0 : UInt64.random(in: 0...(1 << 41), using: &random)
    var wheel = TimerWheel(startingAt: start)
    var model = SortedArrayModel(startingAt: start)
    var tokens: [TimerWheel.Token] = []
    var now = start

    func mutate(_ wheel: inout TimerWheel, _ model: inout SortedArrayModel) {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<6:
        let deadline = spread.deadline(from: now, &random)
        let id = tokens.count
        tokens.append(wheel.schedule(deadline: deadline, payload: UInt64(id)))
        model.schedule(id: id, deadline: deadline, payload: UInt64(id))
      case 6, 7:
        guard let id = tokens.indices.randomElement(using: &random) else { return }
        #expect(wheel.cancel(tokens[id]) == model.cancel(id: id), "cancel, seed \(seed)")
      default:
        guard let id = tokens.indices.randomElement(using: &random) else { return }
        let deadline = spread.deadline(from: now, &random)
        let moved = wheel.reschedule(tokens[id], deadline: deadline)
        #expect(moved == model.reschedule(id: id, deadline: deadline), "move, seed \(seed)")
      }
      if let id = tokens.indices.randomElement(using: &random) {
        #expect(wheel.deadline(of: tokens[id]) == model.deadline(of: id), "seed \(seed)")
        #expect(wheel.isArmed(tokens[id]) == (model.deadline(of: id) != nil), "seed \(seed)")
      }
    }

    for _ in 0..<steps {
      mutate(&wheel, &model)
      check(&wheel, model)
      guard Int.random(in: 0..<3, using: &random) == 0 else { continue }
      let (later, overflow) = now.addingReportingOverflow(spread.step(&random))
      now = overflow ? .max : later
      var finished = false
      while !finished {
        var budget = Int.random(in: 1...9, using: &random)
        while let due = wheel.advance(to: now, budget: &budget) {
          let expected = model.popDue(by: now)
          #expect(due.payload == expected.map { UInt64($0.id) }, "order, seed \(seed)")
          #expect(due.deadline == expected?.deadline, "seed \(seed)")
          #expect(due.deadline <= now, "early, seed \(seed)")
          #expect(due.token == tokens[Int(due.payload)] && !wheel.isArmed(due.token))
          if Int.random(in: 0..<4, using: &random) == 0 { mutate(&wheel, &model) }
          check(&wheel, model)
        }
        finished = budget > 0
        model.move(to: wheel.elapsed)
        if !finished { mutate(&wheel, &model) }
        check(&wheel, model)
      }
      #expect(wheel.elapsed == now && model.popDue(by: now) == nil, "seed \(seed)")
    }
  }

  private func check(_ wheel: inout TimerWheel, _ model: SortedArrayModel) {
    wheel.checkInvariants()
    #expect(wheel.count == model.timers.count, "count, seed \(seed)")
    #expect(wheel.nextDeadline == model.nextDeadline, "next deadline, seed \(seed)")
  }
}

/// SplitMix64: the same numbers for the same seed, on every machine.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
