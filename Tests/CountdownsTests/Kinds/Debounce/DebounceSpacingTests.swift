import Countdowns
import Testing

/// DEBOUNCE with EDGES and SPACING: throttles.
@Suite struct DebounceSpacingTests {
  let desk = Desk()

  /// Plays calls, of which each character but `-` is one with that payload, each `tick` apart, and
  /// returns what fires in the same way.
  private func play(
    _ calls: String, window: Int64, _ edges: Debounce.Edges, quiet: Int64? = nil,
    longest: Int64? = nil
  ) throws -> String {
    let desk = Desk()
    let tick: Int64 = 100
    desk.subscribe(1, pattern: "*")
    for (index, character) in calls.enumerated() {
      desk.at(Int64(index) * tick)
      guard character != "-" else { continue }
      try desk.call(
        "k", quiet: (quiet ?? window) * tick, payload: "\(character)", edges: edges,
        longest: longest.map { $0 * tick }, spacing: window * tick)
    }
    desk.at(Int64(calls.count + 100) * tick)
    desk.expectEmpty()
    var fired = ""
    for line in desk.takeHeard(1) where line.contains(" fired ") {
      let words = line.split(separator: " ")
      let index = Int(Int64(words[0])! / tick)
      fired += String(repeating: "-", count: index - fired.count) + words[5]
    }
    return fired
  }

  /// The timelines of rxjs' tests of throttleTime, without those in which a call comes at the very
  /// end of a window.
  @Test func timelinesOfRxjs() throws {
    let source = "-a-xy-----b--x--cxxx-"
    #expect(try play(source, window: 4, .both) == "-a---y----b---x---x---x")
    #expect(try play(source, window: 4, .trailing) == "-----y--------x---x---x")
    #expect(try play("-a-x-y----b---x-cx---", window: 5, .leading) == "-a--------b-----c")
    #expect(try play("-a--------b-----c----", window: 5, .leading) == "-a--------b-----c")
    for edges in [Debounce.Edges.leading, .both] {
      #expect(try play("-a--------------------", window: 4, edges) == "-a")
    }
    #expect(try play("-a--------------------", window: 4, .trailing) == "-----a")
    // MAXWAIT as long as the window, and a shorter quiet time, make no difference.
    #expect(try play(source, window: 4, .both, longest: 4) == "-a---y----b---x---x---x")
    #expect(try play(source, window: 4, .trailing, longest: 4) == "-----y--------x---x---x")
    #expect(try play(source, window: 4, .both, quiet: 1) == "-a---y----b---x---x---x")
  }

  /// What rxjs does otherwise: there, a call at the very end of a window is within it.
  @Test func aCallAtTheEndOfAWindowBeginsTheNextOne() throws {
    #expect(try play("abcdefabcdefa", window: 5, .leading) == "a----f----e")
  }

  /// rxjs-2727: a throttle with both edges fired twice in each interval.
  @Test func aThrottleFiresOnceInEachInterval() throws {
    desk.subscribe(1, "debounce:k")
    for index in 0..<100 as Range<Int64> {
      desk.at(50 * (index + 1))
      try desk.call("k", quiet: 1_234, payload: "\(index)", edges: .both, spacing: 1_234)
    }
    let lines = desk.takeHeard(1).filter { $0.contains(" fired ") }
    #expect(
      lines == [
        "50 k fired resting 1 0 leading", "1284 k fired resting 24 24 spacing",
        "2518 k fired resting 25 49 spacing", "3752 k fired resting 25 74 spacing",
        "4986 k fired resting 24 98 spacing",
      ])
  }

  /// What lodash does otherwise: there, calls at 0, 10 and 115 ms fire at 0, 100 and 115 ms.
  @Test func firingsAreAnIntervalApartAlsoAfterAPause() throws {
    desk.subscribe(1, "debounce:k")
    for time in [0, 10, 115] as [Int64] {
      desk.at(time)
      try desk.call("k", quiet: 100, edges: .both, longest: 100, spacing: 100)
    }
    desk.at(1_000).hears(
      1, "0 k snapshot idle", "0 k fired resting 1 leading", "100 k fired resting 1 spacing",
      "200 k fired resting 1 spacing")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  /// use-debounce-60: without the trailing edge, MAXWAIT fired nevertheless.
  @Test func withTheLeadingEdgeAloneLaterCallsAreDropped() throws {
    desk.subscribe(1, "debounce:k")
    for time in [0, 150, 300, 310] as [Int64] {
      desk.at(time)
      let view = try desk.call("k", quiet: 300, edges: .leading, longest: 300)
      #expect(view.state == .resting && view.calls == 0)
      #expect(try !desk.flush("k"))
    }
    desk.at(9_000).hears(
      1, "0 k snapshot idle", "0 k fired resting 1 leading", "300 k fired resting 1 leading")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  @Test func withTheLeadingEdgeAloneTheBurstGoesOnUntilItIsQuiet() throws {
    desk.subscribe(1, "debounce:k")
    for time in [0, 250, 500, 750, 1_050] as [Int64] {
      desk.at(time)
      try desk.call("k", quiet: 300, payload: "\(time)", edges: .leading)
    }
    desk.hears(
      1, "0 k snapshot idle", "0 k fired resting 1 0 leading", "1050 k fired resting 1 1050 leading"
    )
  }

  @Test func flushFiresAtOnceAndTheNextFiringKeepsItsDistance() throws {
    desk.subscribe(1, "debounce:k")
    try desk.call("k", quiet: 100, edges: .both, spacing: 100)
    desk.at(10)
    let first = try desk.call("k", quiet: 100, edges: .both, spacing: 100)
    desk.at(50)
    #expect(try desk.flush("k"))
    #expect(desk.debounce("k") == nil)
    #expect(try !desk.flush("k") && !desk.cancel(debounce: "k"))
    desk.at(60)
    let next = try desk.call("k", quiet: 10, payload: "x", edges: .both, spacing: 100)
    #expect(next.generation > first.generation && next.state == .waiting)
    #expect(next.remainingMS == 90)
    desk.at(1_000).hears(
      1, "0 k snapshot idle", "0 k fired resting 1 leading", "50 k fired idle 1 flush",
      "150 k fired idle 1 x spacing")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  @Test func cancelDropsWhatWaitsAndTheNextFiringKeepsItsDistance() throws {
    desk.connect(2)
    desk.subscribe(1, "debounce:k")
    try desk.call("k", quiet: 100, edges: .both, spacing: 100)
    desk.at(10)
    try desk.call("k", quiet: 100, edges: .both, spacing: 100)
    #expect(try desk.cancel(debounce: "k"))
    #expect(try !desk.cancel(debounce: "k"))
    desk.at(20)
    try desk.call("k", quiet: 100, edges: .both, spacing: 100, owner: .connection(2))
    desk.disconnect(2)
    desk.at(30)
    try desk.call("k", quiet: 100, edges: .both, spacing: 100)
    desk.at(1_000).hears(
      1, "0 k snapshot idle", "0 k fired resting 1 leading", "10 k cancelled idle 0 cancelled",
      "30 k cancelled idle 0 owner-gone", "100 k fired resting 1 spacing")
    desk.unsubscribe(1, "debounce:k")
    desk.expectEmpty()
  }

  @Test func aLongerMAXWAITLetsADebouncerWaitForAPauseInSpiteOfSPACING() throws {
    desk.subscribe(1, "debounce:k")
    for time in 0..<20 as Range<Int64> {
      desk.at(time * 50)
      try desk.call("k", quiet: 100, longest: 60_000, spacing: 300)
    }
    desk.at(1_200)
    try desk.call("k", quiet: 100, longest: 60_000, spacing: 3_000)
    desk.at(9_000).hears(
      1, "0 k snapshot idle", "1050 k fired idle 20 quiet", "4050 k fired idle 1 spacing")
  }

  @Test func theDistanceSurvivesARestart() throws {
    try desk.call("k", quiet: 100, edges: .both, spacing: 10_000)
    desk.at(5_000)
    #expect(desk.debounce("k") == nil)
    let next = Desk()
    next.unnoticed(at: 5_000)
    #expect(next.engine.restore(desk.engine.wholeState(), at: next.now)?.isEmpty == true)
    next.subscribe(1, "debounce:k")
    try next.call("k", quiet: 100, edges: .both, spacing: 10_000)
    next.at(60_000).hears(1, "5000 k snapshot idle", "10000 k fired idle 1 spacing")
    next.unsubscribe(1, "debounce:k")
    next.expectEmpty()
  }

  @Test func theOptionsSayWhatIsWrongWithThem() throws {
    let counter = DispatcherHarness()
    try counter.expectError(
      "DEBOUNCE CALL k 1s LEADING EDGES leading", "ERR LEADING is EDGES both", "usage:")
    try counter.expectError(
      "DEBOUNCE CALL k 1s SPACING 0", "ERR SPACING is at least 1ms", "usage:")
    let view = try counter.say("DEBOUNCE CALL k 1s LEADING EDGES both SPACING 2s")
    #expect(view["edges"] == .bulk("both") && view["spacing_ms"] == .integer(2_000))
    #expect(view["leading"] == .integer(1) && view["max_wait_ms"] == .null)
    let only = try counter.say("DEBOUNCE CALL l 1s EDGES leading")
    #expect(only["leading"] == .integer(1) && only["spacing_ms"] == .null)
  }
}
