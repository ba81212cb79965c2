import Countdowns
import Testing

@Suite struct GateTests {
  private let start = Instant(microseconds: 0)
  private func moment(_ seconds: Int64) -> Instant { start + .seconds(seconds) }
  private func action(_ name: String, _ payload: [UInt8]? = nil) -> Gate.Action {
    Gate.Action(name: Array(name.utf8), payload: payload)
  }

  @Test("While closed only the newest action waits, and opening runs it once")
  func newestAlone() {
    var gate = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    #expect(gate.pending == action("a"))
    #expect(gate.nextExpiry == moment(10))
    #expect(gate.check(action("b", [1]), for: .seconds(10), at: moment(4)) == false)
    #expect(gate.nextExpiry == moment(14))
    #expect(gate.open(for: .seconds(60), at: moment(5)) == action("b", [1]))
    #expect(gate.isOpen && gate.pending == nil)
    #expect(gate.nextExpiry == moment(65))
    #expect(gate.open(for: nil, at: moment(6)) == nil)
    #expect(gate.nextExpiry == nil)
  }

  @Test("While open actions may run, and none waits")
  func open() {
    var gate = Gate(openFor: .seconds(60), at: start)
    let before = gate
    #expect(gate.check(action("a"), for: .seconds(1), at: moment(1)) == true)
    #expect(gate == before)
  }

  @Test("Gates and waiting actions end at their deadlines, and not before")
  func expiry() {
    let waiting = Gate(waitingFor: action("a"), for: .seconds(10), at: start)
    #expect(waiting.expiry(at: moment(9)) == nil)
    #expect(waiting.expiry(at: moment(10)) == .dropped(action("a"), due: moment(10)))
    let open = Gate(openFor: .seconds(10), at: start)
    #expect(open.expiry(at: Instant(microseconds: 9_999_999)) == nil)
    #expect(open.expiry(at: moment(12)) == .closed(due: moment(10)))
    #expect(Gate(openFor: nil, at: start).expiry(at: moment(1_000_000)) == nil)
    #expect(Gate(.open(until: moment(10))) == open)
  }
}
