import Countdowns
import Testing

/// Sends under a policy are stored whoever owns the countdown; an owned countdown is not.
@Suite final class OwnedSendTests {
  var kept: KeptEngine
  private let policy: SendPolicy

  init() throws {
    kept = try KeptEngine()
    var rules = SendPolicy.Rules()
    rules.count = 60
    rules.windows = [.init(limit: 3, length: .days(1))]
    rules.validity = .seconds(600)
    rules.attempts = 3
    policy = try SendPolicy(name: "p", rules)
  }

  deinit { kept.remove() }

  private func restart() throws {
    kept.end()
    kept = try KeptEngine(kept.directory, at: kept.now)
  }

  private var quota: QuotaView? { kept.countdown("a")?.quota }

  @Test func theQuotaOutlivesTheOwner() throws {
    try kept.start("a", policy: policy)
    try kept.cancel("a")
    kept.store()
    let owned = try kept.start("a", owner: .connection(1), policy: policy)
    #expect(try kept.attempt("a") == .accepted(isLast: false))
    kept.store()
    try restart()
    let idle = try #require(kept.countdown("a"))
    #expect(idle.state == .idle && idle.owner == .none && idle.generation == owned.generation)
    #expect(idle.sends == 2 && idle.quota?.sendsLeft == 1 && idle.quota?.attemptsLeft == 2)
    // What was sent is forgotten when it would have been.
    kept.pass(86_400_000)
    #expect(kept.entityCount == 0)
  }

  @Test func aPlainOwnedStartKeepsTheQuota() throws {
    try kept.start("a", policy: policy)
    try kept.cancel("a")
    kept.store()
    try kept.start("a", owner: .connection(1))
    kept.store()
    try restart()
    try kept.start("a", policy: policy)
    #expect(quota?.sendsLeft == 1)
  }

  @Test func aRefundOfTheOnlySendLeavesNothingStored() throws {
    let owned = try kept.start("a", owner: .connection(1), policy: policy)
    #expect(kept.store() == .current)
    try kept.refund("a", owned.generation)
    #expect(kept.store() == .gone)
    try kept.start("a", owner: .connection(1), policy: policy)
    #expect(kept.store() == .current)
  }

  @Test func guessesAndLockoutsOutliveTheOwnerAndTheRefundOfTheirSend() throws {
    var rules = policy.rules
    rules.windows = []
    rules.count = 1
    rules.guesses = .init(limit: 1, length: .days(1))
    rules.attempts = nil
    var locking = policy.rules
    (locking.attempts, locking.lockout) = (1, [.days(1)])
    let policies = [
      ("a", try SendPolicy(name: "guesses", rules)), ("b", try SendPolicy(name: "lock", locking)),
    ]
    for (key, policy) in policies {
      let owned = try kept.start(key, owner: .connection(1), policy: policy)
      try kept.attempt(key)
      try kept.refund(key, owned.generation)
    }
    #expect(kept.store() == .current)
    try restart()
    for (key, policy) in policies {
      #expect(try kept.start(key, policy: policy).retryAfterMS == 86_400_000)
    }
    kept.pass(2 * 86_400_000)
    #expect(kept.entityCount == 0)
  }

  @Test func refundsOutliveTheOwner() throws {
    var rules = policy.rules
    rules.refunds = .init(limit: 1, length: .days(1))
    let policy = try SendPolicy(name: "refunds", rules)
    let owned = try kept.start("a", owner: .connection(1), policy: policy)
    #expect(try kept.refund("a", owned.generation))
    #expect(kept.store() == .current)
    try restart()
    let second = try kept.start("a", policy: policy)
    #expect(try !kept.refund("a", second.generation))
    kept.pass(86_400_000)
    #expect(kept.entityCount == 0)
  }

  @Test func theCooldownOfAnOwnerNeedsNoStoring() throws {
    try kept.start("a", owner: .connection(1), policy: policy)
    kept.store()
    try kept.pauseCountdown("a")
    kept.engine.isReadOnly = true
    try kept.cancel("a")
    #expect(!kept.hasChanges)
  }

  @Test func nothingIsSentThatCouldNotBeStored() throws {
    let sent = try kept.start("a", owner: .connection(1), policy: policy)
    kept.pass(60_000)
    kept.engine.isReadOnly = true
    #expect(throws: EngineError.readOnly) {
      try kept.start("b", owner: .connection(1), policy: policy)
    }
    #expect(throws: EngineError.readOnly) {
      try kept.start("a", owner: .connection(1), policy: policy)
    }
    #expect(throws: EngineError.readOnly) { try kept.attempt("a") }
    #expect(throws: EngineError.readOnly) { try kept.refund("a", sent.generation) }
    try kept.start("c", owner: .connection(1))
  }
}

extension KeptEngine {
  @discardableResult
  fileprivate func refund(_ key: String, _ generation: Generation) throws -> Bool {
    try with(key) {
      try engine.refundCountdown($0, generation: generation, at: now).refund == .accepted
    }
  }

  @discardableResult
  fileprivate func attempt(_ key: String) throws -> SendRecord.Attempt {
    try with(key) { try engine.attemptCountdown($0, generation: nil, by: client, at: now).0 }
  }

  fileprivate func pauseCountdown(_ key: String) throws {
    _ = try with(key) { try engine.pauseCountdown($0, generation: nil, at: now) }
  }
}
