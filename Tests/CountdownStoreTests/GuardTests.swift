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
      var batch = StoreBatch()
      batch.guards.current = records
      try store.commit(batch, at: reading())
      for row in records {
        let found = try store.record(of: row.record.kind, at: row.place)
        #expect(found as? DurableGuard == row.record)
      }
    }
    let store = try open(directory)
    #expect(try store.all(DurableGuard.self) == records.sorted { $0.id < $1.id })
    var batch = StoreBatch()
    batch.guards.gone = records.dropFirst().map(\.id)
    try store.commit(batch, at: reading())
    #expect(try store.all(DurableGuard.self) == [records[0]])
  }

  @Test func kindsWithTheSamePlaceAreApart() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    var batch = StoreBatch()
    let machines = [0, 2, 5, 9].map { Self.machines[$0] }
    batch.guards.current = machines.map { row($0, at: StoredPlaces.end - 1) }
    try store.commit(batch, at: reading())
    #expect(try store.all(DurableGuard.self) == batch.guards.current)
    for (row, machine) in zip(batch.guards.current, machines) {
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
    var batch = StoreBatch()
    batch.guards.current = [row(Self.machines[0], at: 0)]
    try store.commit(batch, at: reading())
    try store.database.execute(sql + ", sum = NULL")
    #expect(failure { _ = try store.all(DurableGuard.self) } == .corrupt)
  }
}
