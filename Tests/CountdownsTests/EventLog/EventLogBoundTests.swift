import Testing

@testable import Countdowns

/// The log is bounded by bytes, and every gap is reported.
@Suite struct EventLogBoundTests {
  private static let mostBytes = 2 << 20
  /// What the open chunk, and one event, may take besides.
  private static let room = 512 << 10

  private func desk(bytes: Int = mostBytes) -> Desk {
    var settings = EngineSettings()
    settings.eventBytes = bytes
    return Desk(settings)
  }

  /// Reads all events after a number.
  private func read(
    _ log: EventLog, after sequence: Int64, newest: Int64
  ) -> (sequences: [Int64], lines: [String], isComplete: Bool) {
    var (sequences, lines) = ([Int64](), [String]())
    let reading = log.read(
      after: sequence, newest: newest, limit: .max, budget: .max, where: { _, _, _ in true },
      {
        sequences.append($0.sequence)
        lines.append($0.encoded().map { String(decoding: $0, as: UTF8.self) } ?? "?")
        return true
      })
    #expect(!reading.hasMore && reading.lastSequence == newest)
    return (sequences, lines, reading.isComplete)
  }

  /// Checks that the log is within its bound, lacks older events and says so, and has all later ones.
  private func expectBound(_ desk: Desk, sourceLocation: SourceLocation = #_sourceLocation) {
    let (log, newest) = (desk.engine.eventLog, desk.engine.lastSequence)
    #expect(log.bytes <= Self.mostBytes + Self.room, sourceLocation: sourceLocation)
    #expect(log.evicted > 0 && log.count > 0, sourceLocation: sourceLocation)
    #expect(!read(log, after: 0, newest: newest).isComplete, sourceLocation: sourceLocation)
    let rest = read(log, after: log.droppedThrough, newest: newest)
    #expect(rest.isComplete && rest.sequences.count == log.count, sourceLocation: sourceLocation)
    #expect(rest.sequences.last == newest, sourceLocation: sourceLocation)
  }

  private func showLargeTexts(_ desk: Desk, holds: Int = 64) throws {
    for index in 0..<holds {
      var request = Presentation.Request()
      request.isDurable = true
      request.status = Array(repeating: UInt8(ascii: "a") + UInt8(index % 26), count: 4_096)
      request.path = Array(repeating: UInt8(ascii: "p"), count: 4_000) + Array("\(index)".utf8)
      try desk.show("main", request)
    }
  }

  private func progress(_ desk: Desk, _ fraction: Double) throws {
    _ = try desk.with("main") {
      try desk.engine.updateHUD(
        $0, HUDTarget(), fraction: fraction, status: nil, at: desk.now)
    }
  }

  @Test func largeTextsOfAHUDTakeAtMostTheBound() throws {
    let desk = desk()
    try showLargeTexts(desk)
    for step in 1...100 { try progress(desk, Double(step) / 100) }
    expectBound(desk)
  }

  @Test func largeResultsTakeAtMostTheBound() throws {
    let desk = desk()
    for index in 0..<300 {
      try desk.begin("o")
      try desk.done("o", String(repeating: "\(index % 10)", count: 65_536))
      try desk.cancel(once: "o")
    }
    expectBound(desk)
  }

  @Test func eventsThatAreHandedOverOneByOneTakeAtMostTheBound() throws {
    let desk = desk()
    var all: [Int64] = []
    for index in 0..<20_000 {
      try desk.start("\(index)", title: String(repeating: "t", count: 60))
      all += desk.engine.eventLog.takeUnstored().portions.map(\.lastSequence)
    }
    #expect(all.count == 20_000, "a store receives each of them")
    expectBound(desk)
  }

  @Test func anEventLargerThanTheBoundIsMissingAndThatIsReported() throws {
    let desk = desk(bytes: 32_768)
    try desk.start("a")
    try desk.begin("o")
    let before = desk.engine.lastSequence
    try desk.done("o", String(repeating: "x", count: 65_536))
    let (log, newest) = (desk.engine.eventLog, desk.engine.lastSequence)
    #expect(log.count == 0 && log.bytes == 0)
    #expect(!read(log, after: before, newest: newest).isComplete)
    #expect(read(log, after: newest, newest: newest).isComplete)
    try desk.start("b")
    let later = read(desk.engine.eventLog, after: newest, newest: desk.engine.lastSequence)
    #expect(later.isComplete && later.sequences == [desk.engine.lastSequence])
  }

  @Test func restoredEventsTakeAtMostTheBound() throws {
    let desk = desk(bytes: 64 << 20)
    for index in 0..<100 {
      try desk.begin("o\(index)")
      try desk.done("o\(index)", String(repeating: "x", count: 65_536))
    }
    var log = EventLog(limit: 100_000, bytes: Self.mostBytes, after: 0)
    var last: Int64 = 0
    for portion in desk.engine.eventLog.takeUnstored().portions {
      log.restore(portion.bytes, after: last, through: portion.lastSequence)
      last = portion.lastSequence
      #expect(log.bytes <= Self.mostBytes + Self.room)
    }
    let newest = desk.engine.lastSequence
    #expect(!read(log, after: 0, newest: newest).isComplete)
    let rest = read(log, after: log.droppedThrough, newest: newest)
    #expect(rest.isComplete && rest.sequences.count == log.count && log.count > 0)
    let same = read(desk.engine.eventLog, after: log.droppedThrough, newest: newest)
    #expect(rest.lines == same.lines)
  }
}
