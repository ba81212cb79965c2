import Countdowns
import Testing

@testable import CountdownStore

@Suite struct GuardTests {
  private static func at(_ microseconds: Int64) -> Instant { Instant(microseconds: microseconds) }

  /// The first and the last instant that can be stored: by the store's clock, which is ahead.
  private static let first = at(Instant.possible.lowerBound - wallStart)
  private static let last = at(Instant.possible.upperBound - wallStart)

  private static let machines: [any Guard] = [

    Throttle(
      Throttle.Rate(burst: 1, count: 1, period: .milliseconds(1))!, arrival: first, fraction: 0)!,

    Throttle(
      Throttle.Rate(burst: Throttle.Rate.most, count: Throttle.Rate.most, period: .longest)!,
      arrival: last, fraction: UInt32(Throttle.Rate.most - 1))!,
    Once(.running, until: at(7)), Once(.done(result: []), until: at(7)),
    Once(.done(result: [0, 255]), until: at(7)),
    Gate(.pending(Gate.Action(name: [1]), until: at(3))),
    Gate(.pending(Gate.Action(name: [1], payload: []), until: at(3))),
    Gate(.open(until: nil)), Gate(.open(until: at(9))),
    Gate(.open(until: nil, Gate.Run(Gate.Action(name: [1]), until: at(3)))),
    Gate(.open(until: at(9), Gate.Run(Gate.Action(name: [1], payload: [2]), until: at(10)))),

    Debounce(Debounce.Rule(quiet: .milliseconds(2))!, lastCall: at(1), waiting: nil),

    Debounce(
      Debounce.Rule(quiet: .milliseconds(2), maximumWait: .milliseconds(3), isLeading: true)!,
      lastCall: at(1), waiting: .init(since: at(0), calls: 5, payload: [6])),
  ]

  private func row(
    _ machine: any Guard, at place: UInt32, _ number: Int = 1, uid: UInt32 = 0
  ) -> StoredRow<DurableGuard> {
    StoredRow(
      DurableGuard(
        key: [UInt8(number)], machine, generation: Generation(Int64(number)), uid: uid),
      at: place)
  }

  @Test func everyStateComesBackAsItWas() throws {
    let directory = TemporaryDirectory()
    let records = Self.machines.enumerated().map { number, machine in
      row(machine, at: UInt32(number) * 3, number, uid: .max)
    }
    do {
      let store = try open(directory)
      var batch = TestBatch()
      batch.guards = records
      try store.write(batch)
      for row in records {
        let found = try store.record(DurableGuard.self, row.record.kind, at: row.place)
        #expect(found == row.record)
      }
    }
    let store = try open(directory)
    #expect(try store.all(DurableGuard.self) == records.sorted { $0.id < $1.id })
    var batch = TestBatch()
    batch.gone = records.dropFirst().map { ($0.record.kind, $0.place) }
    try store.write(batch)
    #expect(try store.all(DurableGuard.self) == [records[0]])
  }

  @Test func kindsWithTheSamePlaceAreApart() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    var batch = TestBatch()
    let machines = [0, 2, 5, 11].map { Self.machines[$0] }
    batch.guards = machines.map { row($0, at: StoredPlaces.end - 1) }
    try store.write(batch)
    #expect(try store.all(DurableGuard.self) == batch.guards)
    for (row, machine) in zip(batch.guards, machines) {
      let entity = try #require(DurableGuard.entity(ofRow: Int64(row.id)))
      #expect(entity.kind == type(of: machine).kind && entity.place == StoredPlaces.end - 1)
    }
  }

  @Test(arguments: [
    "UPDATE guards SET kind = 1", "UPDATE guards SET phase = 2",
    "UPDATE guards SET moment_store_us = NULL", "UPDATE guards SET fraction = -1",
  ])
  func invalidRowsAreCorrupt(sql: String) throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    var batch = TestBatch()
    batch.guards = [row(Self.machines[0], at: 0)]
    try store.write(batch)
    try store.database.execute(sql + ", sum = NULL")
    #expect(failure { _ = try store.all(DurableGuard.self) } == .corrupt)
  }
}
