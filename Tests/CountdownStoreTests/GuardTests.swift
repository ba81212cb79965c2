import Testing

@testable import CountdownStore

@Suite struct GuardTests {
  private static let states: [GuardRecord.State] = [
    .throttle(arrival: -5, fraction: 0, burst: 1, rateCount: 1, ratePeriod: 1_000),
    .throttle(
      arrival: .max, fraction: .max, burst: .max, rateCount: .max, ratePeriod: .max),
    .once(deadline: 7, result: nil), .once(deadline: 7, result: []),
    .once(deadline: 7, result: [0, 255]), .gatePending(deadline: 3, action: [1], payload: nil),
    .gatePending(deadline: 3, action: [1], payload: []), .gateOpen(deadline: nil),
    .gateOpen(deadline: 9),
    .debounce(
      lastCall: 1, quiet: 2, maximumWait: nil, isLeading: false, waitingSince: nil, calls: 0,
      payload: nil),
    .debounce(
      lastCall: 1, quiet: 2, maximumWait: 3, isLeading: true, waitingSince: 0, calls: 5,
      payload: [6]),
  ]

  @Test func everyStateComesBackAsItWas() throws {
    let directory = TemporaryDirectory()
    let records = Self.states.enumerated().map { number, state in
      GuardRecord(
        place: UInt32(number) * 3, key: [UInt8(number)], generation: Int64(number), uid: .max,
        state: state)
    }
    do {
      let store = try open(directory)
      var batch = StoreBatch()
      batch.guards.current = records
      try store.commit(batch, at: reading())
      for record in records { #expect(try store.guardRecord(at: record.index) == record) }
    }
    let store = try open(directory)
    #expect(try store.allGuards() == records.sorted { $0.index < $1.index })
    var batch = StoreBatch()
    batch.guards.gone = records.dropFirst().map(\.index)
    try store.commit(batch, at: reading())
    #expect(try store.allGuards() == [records[0]])
  }

  @Test func kindsWithTheSamePlaceAreApart() throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    var batch = StoreBatch()
    batch.guards.current = [Self.states[0], Self.states[2], Self.states[5], Self.states[9]].map {
      GuardRecord(place: StoredPlaces.end - 1, key: [1], generation: 1, uid: 0, state: $0)
    }
    try store.commit(batch, at: reading())
    #expect(try store.allGuards() == batch.guards.current)
    for record in batch.guards.current {
      let place = GuardRecord.place(of: record.index)
      #expect(place.kind == record.state.kind && place.place == record.place)
    }
  }

  @Test(arguments: [
    "UPDATE guards SET kind = 1", "UPDATE guards SET phase = 2",
    "UPDATE guards SET moment_store_us = NULL", "UPDATE guards SET fraction = -1",
  ])
  func whatNeverWasWrittenIsCorrupt(sql: String) throws {
    let directory = TemporaryDirectory()
    let store = try open(directory)
    var batch = StoreBatch()
    batch.guards.current = [
      GuardRecord(place: 0, key: [1], generation: 1, uid: 0, state: Self.states[0])
    ]
    try store.commit(batch, at: reading())
    try store.database.execute(sql + ", sum = NULL")
    #expect(failure { _ = try store.allGuards() } == .corrupt)
  }
}
