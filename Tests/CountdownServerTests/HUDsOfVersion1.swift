import Countdowns
import Testing

/// The HUDs that 0.1.0 stored, as this version reads them.
@Suite struct HUDsOfVersion1 {
  /// When they were stored.
  private let offset: Int64 = 1_795_320_974_989_450
  private let now = Instant(microseconds: 36_034_765_407)

  private func read(_ name: String) throws -> [DurableHUD.Shown] {
    let hex = Array(try #require(Self.stored[name]).utf8)
    let bytes = stride(from: 0, to: hex.count, by: 2).map { place in
      UInt8(String(decoding: hex[place..<place + 2], as: UTF8.self), radix: 16)!
    }
    for length in 0..<bytes.count {
      #expect(StoredPresentations(bytes: Array(bytes[..<length]), offset: offset) == nil)
    }
    let read = try #require(StoredPresentations(bytes: bytes, offset: offset))
    // It is written in the form of this version.
    let again = StoredPresentations(all: read.all).bytes(offset: offset)
    #expect(again.first == 2)
    if name != "owned" {
      #expect(StoredPresentations(bytes: again, offset: offset)?.all == read.all)
    }
    return read.all
  }

  private func machine(_ name: String) throws -> Presentation { try read(name)[0].machine }

  private func seconds(_ machine: Presentation) -> Int64? {
    machine.nextExpiry.map { ($0 - now).microseconds / 1_000_000 }
  }

  @Test func waitingAndAppearingGoOn() throws {
    let waiting = try machine("waiting")
    #expect(waiting.phase == .waiting)
    #expect(waiting.holdCount == 1)
    #expect(waiting.shown.request.grace == .seconds(3_600))
    #expect(waiting.shown.request.maximum == .seconds(3 * 3_600))
    #expect(try #require(seconds(waiting)) / 60 == 59)
    let appearing = try machine("appearing")
    guard case .appearing(let since, let until) = appearing.phase else {
      Issue.record("\(appearing.phase)")
      return
    }
    #expect(until - since == .seconds(3_600))
    #expect(appearing.appearedAt == since)
    #expect(appearing.holdCount == 2)
    #expect(appearing.mask == .black)
  }

  @Test func holdsGetTheWishesOfTheLastShow() throws {
    let two = try machine("two")
    #expect(two.phase == .visible)
    #expect(two.holds.map(\.request.status) == [Array("b".utf8), Array("b".utf8)])
    #expect(two.holds.map(\.generation) == [two.generation, two.generation])
    #expect(try #require(seconds(two)) / 60 == 119)
    #expect(try machine("mixed").holds.map(\.owner) == [.none])
    // Only a connection held it, and that ended with the daemon.
    #expect(try machine("owned").holds.map(\.owner) == [.connection(0)])
  }

  @Test func progressHasAHoldNow() throws {
    let progress = try machine("progress")
    #expect(progress.holdCount == 1)
    #expect(progress.shown.fraction == 0.25)
    let message = try read("message")[0]
    #expect(message.level == .alert)
    #expect(message.machine.holdCount == 0)
    #expect(try #require(seconds(message.machine)) / 60 == 59)
  }

  @Test func dismissalsAndPausesGoOn() throws {
    let delayed = try machine("delayed")
    #expect(delayed.holdCount == 0)
    #expect(try #require(seconds(delayed)) / 60 == 59)
    let held = try machine("held")
    guard case .held(_, .tapped) = held.dismissal else {
      Issue.record("\(String(describing: held.dismissal))")
      return
    }
    #expect(try #require(seconds(held)) / 60 == 59)
    let disappearing = try machine("disappearing")
    #expect(disappearing.end == .dismissed)
    #expect(try #require(seconds(disappearing)) / 60 == 59)
    let paused = try machine("paused")
    #expect(paused.isPaused && paused.holdCount == 1)
    #expect(try #require(paused.remainingTime(at: now)).microseconds / 1_000_000 == 3_599)
  }

  @Test func levelsAreApart() throws {
    let levels = try read("levels")
    #expect(levels.map(\.level) == [.normal, .alert])
    #expect(levels.map(\.machine.mask) == [.none, .gradient])
  }

  /// Written by countdownd 0.1.0: `huds.state` of HUDs in these states.
  private static let stored = [
    "waiting":
      "0100000001000000066e6f726d616c000000076c6f6164696e6701000000017700000000d693a400"
      + "00000000001e848000000000000249f000000000000249f000000000001e8480010000000283baec"
      + "000000000776697369626c6500000004736b6970000000046e6f6e65000660de20ad9f5d00000660"
      + "def7580e1200000000000000000000010000000000000000000660de20c46a12000660de20c46a12"
      + "000660de20c46a1200",
    "appearing":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "00000000000000d693a4000000000023c3460000000000004c4b40000000000776697369626c6500"
      + "000004736b697000000005626c61636b000660de20ad9f5f01000660def758235d00000000000000"
      + "000000020000000000000000000660de20c47f5d000660de20c47f5d000660de20c4923a00",
    "two":
      "0100000001000000066e6f726d616c000000076c6f6164696e670100000001620000000000000000"
      + "0000000000000000000000000000000000000000000249f000000000004c4b400100000001ad2748"
      + "000000000776697369626c6500000004736b6970000000046e6f6e65000660de20ad9f6102000000"
      + "00000000000000020000000000000000000660de20c4a3cd000660de20c4a3cd000660de20c4b58e"
      + "00",
    "progress":
      "0100000001000000066e6f726d616c0000000870726f677265737300000000000000000000000000"
      + "00000000000000000000000000000000000249f000000000004c4b40000000000776697369626c65"
      + "00000004736b6970000000046e6f6e65000660de20ad9f62020000013fd000000000000000000000"
      + "000000000000000000000000000660de20ce1066000660de20ce1066000660de20ce106600",
    "message":
      "010000000100000005616c6572740000000773756363657373010000000573617665640000000000"
      + "00000000000000d693a400000000000000000000000000000249f000000000d693a4000000000007"
      + "76697369626c6500000004736b6970000000046e6f6e65000660de20ad9f63020000000000000000"
      + "0000000000000000000000000660de20ce337d000660de20ce337d000660de20ce337d00",
    "delayed":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000000249f000000000004c4b40000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de20ad9f640201000660def761fa6d00000000000000"
      + "0000000000000000000000000660de20ce45e4000660de20ce45e4000660de20ce45e400",
    "held":
      "0100000001000000066e6f726d616c000000076c6f6164696e6700000000000000000000000000d6"
      + "93a400000000000000000000000000000249f000000000d693a400000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de20ad9f650202000660de20ce76fe00000006746170"
      + "706564000000000000000000000000000000000000000660de20ce6670000660de20ce6670000660"
      + "de20ce667000",
    "disappearing":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000d693a40000000000004c4b40000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de20ad9f6603000660def7623ba302000660de20ce97"
      + "a3000000096469736d697373656401000000096469736d6973736564000000000000000000000000"
      + "0000000000000660de20ce8743000660de20ce8743000660de20ce874300",
    "paused":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000000249f000000000004c4b400100000000d693a40000000007"
      + "76697369626c6500000004736b6970000000046e6f6e65000660de20ad9f67020000000000000000"
      + "0000010000000000000000000660de20cea79d000660de20cea79d000660de20cea79d01000660de"
      + "20ceb73f",
    "levels":
      "0100000002000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000000249f000000000004c4b40000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de20ad9f680200000000000000000000010000000000"
      + "000000000660de20cec754000660de20cec754000660de20cec7540000000005616c657274000000"
      + "0870726f677265737300000000000000000000000000000000000000000000000000000000000002"
      + "49f000000000004c4b40000000000776697369626c6500000004736b697000000008677261646965"
      + "6e74000660de20ad9f690200000000000000000000000000000000000000000660de20ced8330006"
      + "60de20ced833000660de20ced83300",
    "owned":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000000249f000000000004c4b40000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de2244c3e30200000000000000000000000000000000"
      + "000002000660de225d71df000660de225d71df000660de22607f3d00",
    "mixed":
      "0100000001000000066e6f726d616c000000076c6f6164696e670000000000000000000000000000"
      + "000000000000000000000000000000000249f000000000004c4b40000000000776697369626c6500"
      + "000004736b6970000000046e6f6e65000660de2244c3e50200000000000000000000010000000000"
      + "000001000660de22620696000660de22620696000660de22638df700",
  ]
}
