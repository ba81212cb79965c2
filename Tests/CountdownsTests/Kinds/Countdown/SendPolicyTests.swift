import Countdowns
import Testing

/// Which policies are valid, and the problems of those that are not.
@Suite struct SendPolicyTests {
  private func problems(_ change: (inout SendPolicy.Rules) -> Void) -> [String] {
    var rules = SendPolicy.Rules()
    change(&rules)
    return rules.problems.map { "\($0.rule): \($0.text)" }
  }

  private func window(_ limit: Int, _ seconds: Int64) -> SendPolicy.Window {
    SendPolicy.Window(limit: limit, length: .seconds(seconds))
  }

  @Test func theResendRulesOfOtherServicesCanBeWrittenAsPolicies() {
    #expect(problems { _ in } == [])
    #expect(problems { $0.ladder = [.seconds(60), .seconds(120), .seconds(300)] } == [])
    #expect(
      problems {
        $0.ladder = [.seconds(30), .seconds(60)]
        $0.windows = [window(5, 600), window(20, 86_400)]
        $0.channels = ["sms", "sms", "call"]
        $0.validity = .seconds(300)
        $0.attempts = 5
        $0.title = Array("%m:%02s".utf8)
      } == [])
    // The order in which windows are given does not matter.
    #expect(problems { $0.windows = [window(20, 86_400), window(5, 600)] } == [])
  }

  @Test func eachRuleHasItsRange() {
    #expect(problems { $0.every = .zero }[0].hasPrefix("every: a step is at least 1ms"))
    #expect(problems { $0.count = 0 }[0].hasPrefix("count: count is 1 to 2147483647"))
    #expect(
      problems {
        $0.count = 3_651
        $0.every = .days(1)
      }[0].contains("at most 3650d"))
    #expect(problems { $0.windows = [window(0, 600)] }[0].contains("1 to 1000 sends"))
    #expect(problems { $0.windows = [window(1_001, 600)] }[0].contains("1 to 1000 sends"))
    #expect(
      problems { $0.windows = (1...9).map { window($0, Int64($0) * 600) } }[0]
        == "windows: at most 8")
    #expect(problems { $0.validity = .zero }[0].hasPrefix("validity: a code is valid for"))
    #expect(
      problems {
        $0.validity = .seconds(1)
        $0.attempts = 0
      } == ["attempts: 1 to 1000"])
    #expect(problems { $0.title = Array("%s".utf8) }[0].hasPrefix("title: a '%' in a title"))
    #expect(problems { $0.ladder = Array(repeating: .seconds(1), count: 65) }[0].contains("64"))
    #expect(
      problems {
        $0.windows = [window(9, 600)]
        $0.channels = ["s m s"]
      }[0].hasPrefix("channels[0]: "))
  }

  @Test func conflictingRulesAreReported() {
    #expect(
      problems {
        $0.count = 60
        $0.ladder = [.seconds(60)]
      } == ["count: the ladder sets the length already; drop one of them"])
    #expect(
      problems {
        $0.every = .seconds(60)
        $0.ladder = [.seconds(60), .seconds(90)]
      } == ["ladder[1]: 90s is not a whole number of steps (every, 1m)"])
    #expect(
      problems { $0.ladder = [.milliseconds(500)] }
        == ["ladder[0]: a cooldown is at least one step (every, 1s), and at most 3650d"])
    #expect(
      problems {
        $0.ladder = [.seconds(60), .seconds(600)]
        $0.windows = [window(5, 600)]
      } == [
        "ladder[1]: 10m is not shorter than the longest window, 10m: when it is over, sends would "
          + "have started over"
      ])
    #expect(
      problems { $0.windows = [window(5, 60)] } == [
        "windows: the longest window, 1m, is not longer than the cooldown, 1m: when that is over, "
          + "sends would have started over"
      ])
    #expect(
      problems { $0.windows = [window(5, 600), window(5, 86_400)] } == [
        "windows[1]: 5/1d allows no more than 5/10m, which so is never reached; a longer window "
          + "needs a higher limit"
      ])
    #expect(
      problems { $0.windows = [window(5, 600), window(6, 600)] }
        == ["windows[1]: 6/10m and 5/10m are equally long; drop one of them"])
    #expect(
      problems { $0.channels = ["sms"] }
        == ["channels: channels need windows: they start over once the longest one is empty"])
    #expect(
      problems { $0.attempts = 5 } == [
        "attempts: attempts needs validity: how long a code is valid"
      ])
  }

  @Test func impossiblePoliciesAreRefusedWithoutOverflow() {
    #expect(throws: SendPolicy.Invalid.self) { try SendPolicy(name: "a b", SendPolicy.Rules()) }
    var rules = SendPolicy.Rules()
    rules.count = .max
    rules.every = .longest
    rules.windows = [.init(limit: .max, length: Interval(microseconds: .max))]
    rules.ladder = []
    #expect(throws: SendPolicy.Invalid.self) { try SendPolicy(name: "a", rules) }
  }

  @Test func namesHaveUpTo64LettersDigitsUnderscoresDotsAndDashes() {
    for good in ["a", "login.v2", "A-Z_0", String(repeating: "x", count: 64)] {
      #expect(SendPolicy.isName(good), "\(good)")
    }
    for bad in ["", " ", "a b", "a/b", "é", "a\n", String(repeating: "x", count: 65)] {
      #expect(!SendPolicy.isName(bad), "\(bad)")
    }
  }

  @Test func theTextOfADurationCanBeParsedAgain() {
    let table: [(Int64, String)] = [
      (0, "0"), (1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (120_000, "2m"),
      (7_200_000, "2h"), (86_400_000, "1d"), (90_000_000, "25h"),
    ]
    for (milliseconds, text) in table { #expect(Interval.milliseconds(milliseconds).text == text) }
  }
}

/// The sends and codes that a record retains.
@Suite struct SendRecordTests {
  private func policy(_ change: (inout SendPolicy.Rules) -> Void) throws -> SendPolicy {
    var rules = SendPolicy.Rules()
    change(&rules)
    return try SendPolicy(name: "test", rules)
  }

  private func send(
    _ number: Int64, _ record: inout SendRecord, _ countdown: inout Countdown?,
    by policy: SendPolicy, at now: Instant
  ) {
    let generation = Generation(number)
    guard countdown != nil else {
      countdown = record.accept(generation, firesAtOnce: false, by: policy, at: now)
      return
    }
    _ = countdown!.expire(at: now, kept: .longest)
    record.accept(generation, &countdown!, firesAtOnce: false, by: policy, at: now)
  }

  @Test func aRecordKeepsNoMoreSendsThanTheLongestWindowAndTheCodesNeed() throws {
    let windows = try policy {
      $0.count = 1
      $0.windows = [.init(limit: 3, length: .seconds(10)), .init(limit: 20, length: .seconds(100))]
    }
    let codes = try policy {
      $0.count = 1
      $0.validity = .days(1)
    }
    let neither = try policy { $0.count = 1 }
    for (policy, maximum) in [(windows, 20), (codes, SendRecord.maximumCodes), (neither, 1)] {
      var record = SendRecord()
      var countdown: Countdown?
      var now = Instant(microseconds: 0)
      for number in 1...500 as ClosedRange<Int64> {
        if let countdown, let refusal = countdown.refusal(by: policy, record, at: now) {
          now = refusal.until
        }
        send(number, &record, &countdown, by: policy, at: now)
        #expect(record.sends.count <= maximum)
        #expect(record.sends.last?.generation == Generation(number))
      }
    }
  }

  @Test func aSeventeenthValidCodeEndsTheOldestOne() throws {
    let policy = try policy {
      $0.count = 1
      $0.validity = .days(1)
      $0.attempts = 3
    }
    var record = SendRecord()
    var countdown: Countdown?
    for number in 0...16 as ClosedRange<Int64> {
      send(number, &record, &countdown, by: policy, at: Instant(microseconds: number * 1_000_000))
    }
    let now = Instant(microseconds: 16_000_000)
    let oldest = record.attempt(Generation(0), by: policy, at: now)
    let next = record.attempt(Generation(1), by: policy, at: now)
    #expect(oldest == .expired && next == .accepted(isLast: false))
  }

  @Test func aRecordRestoredFromItsFieldsEqualsTheOriginal() throws {
    let policy = try policy {
      $0.count = 1
      $0.windows = [.init(limit: 3, length: .seconds(10))]
      $0.validity = .seconds(5)
      $0.attempts = 3
    }
    var record = SendRecord()
    var countdown: Countdown?
    for number in 1...3 as ClosedRange<Int64> {
      let now = Instant(microseconds: number * 2_000_000)
      send(number, &record, &countdown, by: policy, at: now)
      _ = record.attempt(nil, by: policy, at: now)
      let sends = record.sends.map {
        SendRecord.Send(
          generation: $0.generation, at: $0.at, expires: $0.expires, attempts: $0.attempts)
      }
      var copy = SendRecord(sends: sends, number: record.number, isPassed: record.isPassed)
      #expect(copy == record)
      let later = now + .seconds(4)
      #expect(copy.block(by: policy, at: now) == record.block(by: policy, at: now))
      #expect(copy.expireCode(by: policy, at: later) == record.expireCode(by: policy, at: later))
      #expect(copy == record)
      #expect(copy.pass(nil, at: now) == record.pass(nil, at: now))
      #expect(copy == record)
    }
  }
}
