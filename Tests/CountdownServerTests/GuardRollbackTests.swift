import Countdowns
import Testing

/// A batch that cannot be stored is rolled back: rate limits, idempotency keys, gates, debouncers.
@Suite final class GuardRollbackTests {
  private let kept: KeptEngine
  private let client = Client(connection: 1, uid: 1_000)

  init() throws { kept = try KeptEngine() }
  deinit { kept.remove() }

  private func take(_ key: String) throws {
    let rate = Throttle.Rate(burst: 3, count: 1, period: .seconds(60))!
    let taken = try kept.with(key) {
      try kept.engine.takeThrottle($0, rate, cost: 1, isPeek: false, by: client, at: kept.now)
    }
    #expect(taken.isAccepted)
  }

  private func wait(_ session: String) throws {
    _ = try kept.with(session) {
      try kept.engine.checkGate(
        $0, GateCheck(Gate.Action(name: Array("buy".utf8)), ttl: .seconds(60)), by: client,
        at: kept.now)
    }
  }

  private func call(_ key: String) throws {
    _ = try kept.with(key) {
      try kept.engine.callDebounce(
        $0, Debounce.Rule(quiet: .seconds(9))!, payload: nil, owner: .none, by: client,
        at: kept.now)
    }
  }

  private func takeAll(_ key: String) throws {
    try take(key)
    try kept.begin(key)
    try wait(key)
    try call(key)
  }

  /// Of each kind what a view shows; nil where there is none.
  private func views(_ key: String) -> [AnyHashable?] {
    kept.with(key) {
      let throttle = kept.engine.throttle($0, at: kept.now)
      let once = kept.engine.once($0, at: kept.now)
      let gate = kept.engine.gate($0, at: kept.now)
      let debounce = kept.engine.debounce($0, at: kept.now)
      return [
        throttle.map { "\($0.generation) \($0.state) \($0.remaining)" },
        once.map { "\($0.generation) \($0.state) \($0.remainingMS)" },
        gate.map { "\($0.generation) \($0.state)" },
        debounce.map { "\($0.generation) \($0.calls) \($0.remainingMS)" },
      ]
    }
  }

  @Test func aRollbackRestoresEachKind() throws {
    // Of each kind another number, so that the places of one are not those of another.
    try kept.begin("x")
    for key in ["y", "z"] { try wait(key) }
    for key in ["u", "v", "w"] { try call(key) }
    try takeAll("a")
    try takeAll("b")
    try kept.store()
    let (a, b, count) = (views("a"), views("b"), kept.entityCount)
    #expect(!a.contains(nil) && !b.contains(nil))
    kept.isBroken = true
    for _ in 0..<3 {
      try takeAll("new")
      try take("a")
      try call("a")
      try kept.with("a") {
        _ = try kept.engine.finishOnce($0, [1], generation: nil, at: kept.now)
        _ = try kept.engine.openGate($0, for: nil, by: client, at: kept.now)
      }
      // Gone, and begun again elsewhere.
      try kept.forget("b")
      try kept.begin("b")
      try kept.with("b") {
        _ = try kept.engine.cancelGate($0, generation: nil, at: kept.now)
        _ = try kept.engine.cancelDebounce($0, generation: nil, at: kept.now)
        _ = try kept.engine.refundThrottle($0, cost: 1, generation: nil, at: kept.now)
      }
      #expect(zip(a, views("a")).allSatisfy { $0 != $1 })
      #expect(zip(b, views("b")).allSatisfy { $0 != $1 })
      try kept.takeBack()
      #expect(views("a") == a && views("b") == b)
      #expect(views("new") == [nil, nil, nil, nil] && kept.entityCount == count)
    }
    kept.isBroken = false
    kept.end()
    let again = try KeptEngine(kept.directory, at: kept.now)
    #expect(again.entityCount == count && again.armedCount == kept.armedCount)
    again.end()
  }
}
