import Countdowns
import Foundation
import Testing

@testable import CountdownStore

/// Durable entities survive the conversion to a row and back. The store's clock is ahead of the boot
/// clock.
@Suite struct RecordTests {
  private static let offset: Int64 = 1_000_000_000

  private func at(_ milliseconds: Int64) -> Instant {
    Instant(microseconds: milliseconds * 1_000 + 7)
  }

  private static let reading = StoreClock.Reading(
    bootID: "boot", bootMicroseconds: 1_000_000, wallMicroseconds: 1_000_000 + offset)

  private static func directory() -> String {
    NSTemporaryDirectory() + "countdown-records-\(UUID().uuidString)"
  }

  private static func open(_ directory: String) throws -> Store {
    try Store(
      Store.Options(directory: directory, durability: .process, product: "test"), at: reading)
  }

  // MARK: Countdowns

  private static func policy(_ change: (inout SendPolicy.Rules) -> Void) throws -> SendPolicy {
    var rules = SendPolicy.Rules()
    change(&rules)
    return try SendPolicy(name: "otp", rules)
  }

  private static let full = Result {
    try policy {
      $0.every = .milliseconds(500)
      $0.ladder = [.seconds(60), .seconds(120), .seconds(300)]
      $0.windows = [
        .init(limit: 5, length: .seconds(600)), .init(limit: 9, length: .seconds(86_400)),
      ]
      $0.channels = ["sms", "sms", "call"]
      $0.validity = .seconds(600)
      $0.attempts = 3
      $0.onResend = .replace
      $0.title = Array("%ds".utf8)
      $0.readyTitle = []
    }
  }

  private var record: SendRecord {
    SendRecord(
      sends: [
        .init(generation: Generation(5), at: at(-5), expires: nil, attempts: 2),
        .init(generation: Generation(.max), at: at(9), expires: at(600_009), attempts: 1),
      ], number: 4, isPassed: true)
  }

  private func back(_ kept: DurableCountdown) throws -> DurableCountdown {
    var batch = TestBatch()
    batch.countdowns = [StoredRow(kept, at: 7)]
    return try #require(try back(batch, .countdown, at: 7))
  }

  /// What is read of an entity that a batch has.
  private func back<Record: StoredRecord>(
    _ batch: TestBatch, _ kind: EntityKind, at place: UInt32
  ) throws -> Record? {
    let directory = Self.directory()
    defer { try? FileManager.default.removeItem(atPath: directory) }
    try Self.open(directory).write(batch)
    return try Self.open(directory).record(Record.self, kind, at: place)
  }

  /// As if an older version had written it.
  @Test func aFieldThatIsNotThereYetIsMissing() throws {
    let record = countdown(0, "a").record
    let bytes = record.bytes(offset: 0)
    #expect(DurableCountdown(bytes: bytes, offset: 0) == record)
    func read(_ bytes: ArraySlice<UInt8>, mayEndEarly: Bool) -> DurableCountdown? {
      DurableCountdown(bytes: bytes, offset: 0, mayEndEarly: mayEndEarly)
    }
    #expect(read(bytes.dropLast(), mayEndEarly: true) == record)
    #expect(read(bytes.dropLast(), mayEndEarly: false) == nil)
    #expect(read(bytes[3...], mayEndEarly: true) == nil)
  }

  @Test func countdownsSurviveTheRoundTrip() throws {
    let phases: [Countdown.Phase] = [
      .counting(until: at(4)), .paused(left: .milliseconds(9)), .ready(since: at(-3)),
      .idle(since: at(0)),
    ]
    for (number, phase) in phases.enumerated() {
      let plan = Countdown.Plan(count: 3, every: .milliseconds(250), firesAtOnce: number % 2 == 0)!
      let machine = Countdown(plan, phase, sends: 9, isRefunded: number < 2)
      var kept = DurableCountdown(
        key: [0, 255], machine: machine, generation: Generation(8), uid: 6)
      if number != 1 {
        (kept.title, kept.readyTitle) = (Array("a".utf8), Array("b".utf8))
        kept.annotations.meta = Array("c".utf8)
        // The newest start had a token, or none.
        kept.tokens = [SentToken([0, 255], Generation(2)), SentToken([1], Generation(.max))]
        if number == 2 { kept.tokens.append(SentToken(Array("d".utf8), Generation(8))) }
        if number == 3 { kept.tokens = [SentToken(Array("d".utf8), Generation(8))] }
      }
      let back = try back(kept)
      #expect(back.key == kept.key && back.machine == machine && back.uid == 6)
      #expect(back.generation == kept.generation && back.sending == nil)
      #expect(back.title == kept.title && back.readyTitle == kept.readyTitle)
      #expect(back.annotations.meta == kept.annotations.meta && back.tokens == kept.tokens)
    }
  }

  @Test func sendsSurviveTheRoundTrip() throws {
    let plain = try Self.policy { $0.count = 30 }
    for (policy, record, isInForce) in [
      (try Self.full.get(), record, true), (try Self.full.get(), SendRecord(), false),
      (plain, record, false),
      (plain, SendRecord(sends: record.sends, number: 1, isPassed: false), true),
    ] {
      var kept = DurableCountdown(
        key: [1], machine: Countdown(Countdown.Plan(count: 1, every: .seconds(1))!, at: at(0)),
        generation: Generation(1), uid: 0)
      kept.sending = DurableSending(policy: policy, record: record, isInForce: isInForce)
      let back = try #require(try back(kept).sending)
      #expect(back.policy == policy && back.record == record && back.isInForce == isInForce)
    }
  }

  @Test("A number of sends that the next send would overflow makes no sense")
  func tooManySends() throws {
    func decode(_ number: UInt32) throws -> DurableSending? {
      let sending = DurableSending(
        policy: try Self.full.get(), record: SendRecord(sends: record.sends, number: number),
        isInForce: true)
      let bytes = sending.bytes(offset: Self.offset)
      return DurableSending(
        policyName: Array("otp".utf8), bytes: bytes, offset: Self.offset)
    }
    #expect(try decode(UInt32(Int32.max)) != nil)
    #expect(try decode(.max) == nil)
  }

  @Test("What is written outlives the program: it is never another way without another version")
  func writtenBytes() throws {
    let sending = DurableSending(policy: try Self.full.get(), record: record, isInForce: true)
    let sent = """
      01010000000401000000020000000000000005000000003b9ab67f00000000027fffffffffffffff00000000\
      3b9aed2f01000000005f5e332f0000000100000000000007a120000000030000000003938700000000000727\
      0e000000000011e1a3000000000200000000000000050000000023c346000000000000000009000000141dd7\
      60000000000300000003736d7300000003736d730000000463616c6c010000000023c3460001000000000000\
      0003000000077265706c61636501000000032564730100000000
      """
    #expect(hex(sending.bytes(offset: Self.offset)) == sent)
    var kept = DurableCountdown(
      key: [1], machine: Countdown(Countdown.Plan(count: 1, every: .seconds(1))!, at: at(0)),
      generation: Generation(1), uid: 0)
    kept.tokens = [SentToken([0, 255], Generation(2)), SentToken([7], Generation(.max))]
    #expect(
      hex(try #require(kept.earlierTokens))
        == "00000000000000020000000200ff7fffffffffffffff0000000107")
    let isRead = kept.setTokens(nil, earlier: [0, 0, 0])
    #expect(!isRead)
    var request = Presentation.Request(
      kind: .progress, status: Array("s".utf8), grace: .milliseconds(1), minimum: .milliseconds(2),
      maximum: .milliseconds(3), fadeIn: .milliseconds(4), fadeOut: .milliseconds(5),
      minimumFrom: .request, early: .show, mask: .black, messageMinimum: .milliseconds(6))
    request.isDurable = true
    request.path = [UInt8(ascii: "/")]
    var machine = Presentation.blank
    machine.generation = Generation(7)
    machine.shows = [
      Presentation.Show(request, generation: Generation(7), owner: .none, since: at(11))
    ]
    machine.shows[0].fraction = 0.5
    machine.isHeld = false
    machine.phase = .disappearing(until: at(8))
    machine.requestedAt = at(9)
    machine.appearedAt = at(10)
    machine.visibleSince = at(10)
    machine.dismissal = .held(since: at(12), .tapped)
    machine.end = .timedOut
    machine.pausedAt = at(15)
    let presentations = StoredPresentations(all: [DurableHUD.Shown(.alert, machine)])
    let shown = """
      020000000100000005616c6572740000000000000007000000010000000870726f6772657373010000000173\
      00000000000003e800000000000007d00000000000000fa00000000000001388000000000000177001000000\
      0000000bb800000007726571756573740000000473686f7700000005626c61636b01000000012f0000000000\
      000007013fe0000000000000000000003b9af4ff0003000000003b9ae94702000000003b9af8e70000000674\
      6170706564010000000974696d65642d6f7574000000003b9aed2f000000003b9af117000000003b9af11701\
      000000003b9b049f
      """
    #expect(hex(presentations.bytes(offset: Self.offset)) == shown)
  }

  private func hex(_ bytes: [UInt8]) -> String {
    bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  // MARK: Timers

  @Test(arguments: [TimerClock.boot, .wall], [PlainTimer.Late.fire, .skip, .coalesce])
  func timersSurviveTheRoundTrip(clock: TimerClock, late: PlainTimer.Late) throws {
    for phase in [PlainTimer.Phase.running(until: at(5)), .paused(left: .milliseconds(3))] {
      let machine = PlainTimer(
        phase, every: late == .skip ? nil : .seconds(2), late: late, fired: 3, missed: 1)!
      let kept = DurableTimer(
        key: [1], machine: machine, generation: Generation(2), uid: 3, clock: clock,
        payload: late == .fire ? nil : [0])
      let directory = Self.directory()
      defer { try? FileManager.default.removeItem(atPath: directory) }
      let store = try Self.open(directory)
      var batch = TestBatch()
      batch.timers = [StoredRow(kept, at: 4)]
      try store.write(batch)
      // A wall timer is stored as it is.
      let column = clock == .boot ? "deadline_store_us" : "deadline_unix_us"
      if case .running(let until) = phase {
        #expect(
          try store.database.number("SELECT \(column) FROM timers WHERE id = 4")
            == until.microseconds + (clock == .boot ? Self.offset : 0))
      }
      let back = try #require(try store.record(DurableTimer.self, .timer, at: 4))
      #expect(back.key == [1] && back.machine == machine && back.generation == kept.generation)
      #expect(back.uid == 3 && back.clock == clock && back.payload == kept.payload)
    }
  }

  @Test func invalidTimerRowsAreRefused() throws {
    let directory = Self.directory()
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let store = try Self.open(directory)
    let machine = PlainTimer(
      .running(until: at(1)), every: nil, late: .fire, fired: 0, missed: 0)!
    var batch = TestBatch()
    batch.timers = [
      StoredRow(
        DurableTimer(
          key: [1], machine: machine, generation: Generation(1), uid: 0, clock: .boot, payload: nil),
        at: 0)
    ]
    func isNone(_ change: String) throws -> Bool {
      try store.write(batch)
      try store.database.execute("UPDATE timers SET \(change), sum = NULL")
      do throws(StoreError) {
        return try store.record(DurableTimer.self, .timer, at: 0) == nil
      } catch {
        return error.kind == .corrupt
      }
    }
    #expect(try !isNone("missed = 0"))
    #expect(try isNone("fired = -1") && isNone("missed = -1"))
    #expect(try isNone("fired = \(1 << 53 + 1)") && isNone("missed = \(Int64.max)"))
    #expect(try isNone("every_us = 999") && isNone("every_us = \(Int64.max)"))
    #expect(try !isNone("phase = 1, deadline_store_us = NULL, left_us = 1"))
    #expect(try isNone("phase = 1, deadline_store_us = NULL, left_us = -1"))
    let wall = "clock = 1, deadline_store_us = NULL, deadline_unix_us"
    #expect(try !isNone("\(wall) = 1"))
    for moment in [Int64.min, .max, 100_000_000_000_000_001] {
      #expect(try isNone("deadline_store_us = \(moment)"))
      #expect(try isNone("\(wall) = \(moment)"))
    }
  }

  // MARK: Guards

  @Test func guardsSurviveTheRoundTrip() throws {
    let rule = Debounce.Rule(
      quiet: .milliseconds(2), maximumWait: .milliseconds(9), isLeading: true)!
    let machines: [any Guard] = [

      Throttle(
        Throttle.Rate(burst: 3, count: 7, period: .seconds(1))!, arrival: at(5), fraction: 4)!,
      Once(.running, until: at(6)), Once(.done(result: []), until: at(6)),
      Gate(.pending(Gate.Action(name: [1], payload: [2]), until: at(3))),
      Gate(.pending(Gate.Action(name: [1]), until: at(3))),
      Gate(.open(until: nil)), Gate(.open(until: at(4))),
      Gate(.open(until: at(4), Gate.Run(Gate.Action(name: [1], payload: [2]), until: at(5)))),

      Debounce(
        rule, lastCall: at(8), waiting: .init(since: at(7), calls: 5, payload: [3])),
      Debounce(Debounce.Rule(quiet: .seconds(1))!, lastCall: at(-8), waiting: nil),
    ]
    for machine in machines {
      let kept = DurableGuard(key: [9], machine, generation: Generation(2), uid: 3)
      var batch = TestBatch()
      batch.guards = [StoredRow(kept, at: 4)]
      let back: DurableGuard = try #require(try back(batch, type(of: machine).kind, at: 4))
      #expect(back.columns == machine.columns && back.key == [9])
      #expect(back.generation == kept.generation && back.uid == 3)
      let row = batch.guards[0]
      #expect(row.place == 4 && row.record.kind == type(of: machine).kind)
    }
  }
}
