import SeededRandom
import TimerWheel

/// How far ahead the deadlines of a history lie.
public enum Spread: String, CaseIterable, Sendable {
  case sameTick, near, mixed, edges, whole

  func deadline(from now: UInt64, _ random: inout SeededGenerator) -> UInt64 {
    switch self {
    case .sameTick: return now &+ UInt64.random(in: 0...1, using: &random)
    case .near: return clamped(now, plus: UInt64.random(in: 0...5_000, using: &random))
    case .mixed:
      let bits = UInt64.random(in: 0...40, using: &random)
      return clamped(now, plus: UInt64.random(in: 0...(1 << bits), using: &random))
    case .edges:
      // Just before, at and just after the first tick of a slot, on every level.
      let shift = UInt64(6 * Int.random(in: 0...9, using: &random))
      let edge = ((now >> shift) &+ UInt64.random(in: 1...65, using: &random)) << shift
      return edge &+ UInt64.random(in: 0...2, using: &random) &- 1
    case .whole: return UInt64.random(in: 0...UInt64.max, using: &random)
    }
  }

  /// Returns how far time advances in one step.
  func step(_ random: inout SeededGenerator) -> UInt64 {
    switch self {
    case .sameTick: return UInt64.random(in: 0...1, using: &random)
    case .near: return UInt64.random(in: 0...300, using: &random)
    case .mixed, .edges: return 1 << UInt64.random(in: 0...36, using: &random)
    case .whole: return UInt64.random(in: 0...(1 << 60), using: &random)
    }
  }
}

/// A difference between the wheel and the model.
public struct Disagreement: Error, CustomStringConvertible {
  public let description: String
}

/// One seeded random history, step by step against the naive model: every public operation, between
/// advances and between the expirations of an advance, single and in bursts, with small budgets.
public struct History: ~Copyable {
  private let seed: UInt64
  private let spread: Spread
  private var random: SeededGenerator
  private var wheel: TimerWheel
  private var model: SortedArrayModel
  private var tokens: [TimerWheel.Token] = []
  private var now: UInt64
  private let mayBurst: Bool
  /// How many changes and expirations have been played.
  public private(set) var steps = 0

  public init(seed: UInt64, spread: Spread) {
    self.seed = seed
    self.spread = spread
    random = SeededGenerator(seed: seed)
    now = seed % 3 == 0 ? 0 : UInt64.random(in: 0...(1 << 41), using: &random)
    wheel = TimerWheel(startingAt: now)
    model = SortedArrayModel(startingAt: now)
    mayBurst = seed % 4 == 1
  }

  public mutating func play(turns: Int) throws(Disagreement) {
    for _ in 0..<turns {
      try change()
      try check()
      if Int.random(in: 0..<3, using: &random) == 0 { try advance() }
    }
  }

  // MARK: Changes

  private mutating func change() throws(Disagreement) {
    steps += 1
    switch Int.random(in: 0..<12, using: &random) {
    case 0..<6:
      schedule(spread.deadline(from: now, &random))
    case 6, 7:
      guard let id = tokens.indices.randomElement(using: &random) else { return }
      try cancel(id)
    case 8, 9, 10:
      guard let id = tokens.indices.randomElement(using: &random) else { return }
      let deadline = spread.deadline(from: now, &random)
      let moved = wheel.reschedule(tokens[id], deadline: deadline)
      try agree(moved, model.reschedule(id: id, deadline: deadline), "reschedule")
    default:
      if mayBurst { try burst() }
      wheel.releaseUnusedMemory()
    }
    if let id = tokens.indices.randomElement(using: &random) {
      try agree(wheel.deadline(of: tokens[id]), model.deadline(of: id), "deadline")
      try agree(wheel.isArmed(tokens[id]), model.deadline(of: id) != nil, "is armed")
    }
  }

  private mutating func schedule(_ deadline: UInt64) {
    let id = tokens.count
    tokens.append(wheel.schedule(deadline: deadline, payload: UInt64(id)))
    model.schedule(id: id, deadline: deadline, payload: UInt64(id))
  }

  private mutating func cancel(_ id: Int) throws(Disagreement) {
    try agree(wheel.cancel(tokens[id]), model.cancel(id: id), "cancel")
  }

  /// Schedules more timers than fit in a chunk, close together; or cancels most timers.
  private mutating func burst() throws(Disagreement) {
    if Bool.random(using: &random), model.timers.count < 2_000 {
      let first = spread.deadline(from: now, &random)
      let width = UInt64(1) << UInt64.random(in: 0...20, using: &random)
      for _ in 0..<Int.random(in: 60...300, using: &random) {
        schedule(clamped(first, plus: UInt64.random(in: 0..<width, using: &random)))
      }
    } else {
      for id in model.timers.map(\.id) where Int.random(in: 0..<8, using: &random) > 0 {
        try cancel(id)
      }
    }
  }

  // MARK: Time

  private mutating func advance() throws(Disagreement) {
    now = clamped(now, plus: spread.step(&random))
    var isFinished = false
    while !isFinished {
      var budget = Int.random(in: 1...9, using: &random)
      if mayBurst { budget *= 20 }
      while let due = wheel.advance(to: now, budget: &budget) {
        steps += 1
        let expected = model.popDue(by: now)
        try agree(due.payload, expected?.payload, "order")
        try agree(due.deadline, expected?.deadline, "deadline of an expiration")
        try agree(due.deadline <= now, true, "never early")
        try agree(due.token, tokens[Int(due.payload)], "token of an expiration")
        try agree(wheel.isArmed(due.token), false, "an expired timer is armed")
        if Int.random(in: 0..<4, using: &random) == 0 { try change() }
        try check()
      }
      isFinished = budget > 0
      model.move(to: wheel.elapsed)
      if !isFinished { try change() }
      try check()
    }
    try agree(wheel.elapsed, now, "elapsed")
    try agree(model.popDue(by: now)?.id, nil, "not expired")
  }

  // MARK: Agreement

  private mutating func check() throws(Disagreement) {
    wheel.checkInvariants()
    try agree(wheel.count, model.timers.count, "count")
    try agree(wheel.nextDeadline, model.nextDeadline, "next deadline")
  }

  private func agree<T: Equatable>(
    _ wheel: T, _ model: T, _ what: String
  ) throws(Disagreement) {
    guard wheel != model else { return }
    throw Disagreement(
      description: "\(what): the wheel says \(wheel), the model \(model); "
        + "seed \(seed), spread \(spread), step \(steps)")
  }
}

func clamped(_ moment: UInt64, plus step: UInt64) -> UInt64 {
  let (sum, overflow) = moment.addingReportingOverflow(step)
  return overflow ? .max : sum
}
