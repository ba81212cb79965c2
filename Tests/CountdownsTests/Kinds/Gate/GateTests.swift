import Countdowns
import Testing

@Suite struct GateTests {
  private let start = Instant(microseconds: 0)
  private func moment(_ seconds: Int64) -> Instant { start + .seconds(seconds) }
  private func action(_ name: String, _ payload: [UInt8]? = nil) -> Gate.Action {
    Gate.Action(name: Array(name.utf8), payload: payload)
  }

  @Test func whileClosedOnlyTheNewestActionWaitsAndOpeningRunsItOnce() {
    var gate = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    #expect(gate.pending == action("a"))
    #expect(gate.nextExpiry == moment(10))
    #expect(gate.check(action("b", [1]), for: .seconds(10), at: moment(4)) == false)
    #expect(gate.nextExpiry == moment(14))
    #expect(gate.open(for: .seconds(60), at: moment(5)) == action("b", [1]))
    #expect(gate.isOpen && gate.pending == nil)
    #expect(gate.run == Gate.Run(action("b", [1]), until: moment(14)))
    #expect(gate.open(for: nil, at: moment(6)) == nil)
    #expect(gate.nextExpiry == moment(14))
    gate.endRun()
    #expect(gate.nextExpiry == nil)
  }

  @Test func theActionOfAnOpenSessionIsOneConnectionsAtATime() {
    var gate = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    #expect(gate.take(by: 7) == .login)
    _ = gate.open(for: .seconds(5), at: start)
    #expect(gate.nextExpiry == moment(5))
    #expect(gate.take(by: 7) == nil)
    #expect(gate.take(by: 7) == nil)
    #expect(gate.take(by: 8) == .taken)
    #expect(gate.run?.taker == 7)
    gate.release()
    #expect(gate.take(by: 8) == nil)
    gate.endRun()
    #expect(gate.take(by: 8) == .noAction)
    #expect(gate == Gate(openFor: .seconds(5), at: start))
  }

  @Test func anActionThatNobodyTakesIsDroppedAtItsTTLATakenOneIsNot() {
    var gate = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    _ = gate.open(for: .seconds(60), at: moment(1))
    #expect(gate.expiry(at: moment(9)) == nil)
    #expect(gate.expiry(at: moment(70)) == .notTaken(action("a"), due: moment(10)))
    _ = gate.take(by: 7)
    #expect(gate.nextExpiry == moment(61))
    #expect(gate.expiry(at: moment(61)) == .closed(due: moment(61)))
  }

  @Test func whileOpenActionsMayRunAndNoneWaits() {
    var gate = Gate(openFor: .seconds(60), at: start)
    let before = gate
    #expect(gate.check(action("a"), for: .seconds(1), at: moment(1)) == true)
    #expect(gate == before)
  }

  @Test func gatesAndWaitingActionsEndAtTheirDeadlinesAndNotBefore() {
    let waiting = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    #expect(waiting.expiry(at: moment(9)) == nil)
    #expect(waiting.expiry(at: moment(10)) == .dropped(action("a"), due: moment(10)))
    let open = Gate(openFor: .seconds(10), at: start)
    #expect(open.expiry(at: Instant(microseconds: 9_999_999)) == nil)
    #expect(open.expiry(at: moment(12)) == .closed(due: moment(10)))
    #expect(Gate(openFor: nil, at: start).expiry(at: moment(1_000_000)) == nil)
  }
}
