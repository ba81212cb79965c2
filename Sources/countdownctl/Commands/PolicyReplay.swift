import ArgumentParser
import CountdownClient
import CountdownConfiguration
import Countdowns
import Wire

struct PolicyReplay: SessionCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Play the journal with other rules: what would have been sent and refused?",
    discussion: """
      The daemon's own machines decide about each request of the journal again, on the journal's \
      time, with the policies and throttles of FILE and FILE.d/*.yaml. Nothing is sent or changed.

      Examples:
        countdownctl policy replay new.yaml --since 7d --price 0.05
        countdownctl policy replay new.yaml --journal countdownd.journal --json
      """)

  @Argument(help: "The configuration file with the other rules.", completion: .file())
  var file: String
  @Option(
    help: "A file made by journal export; without it, the daemon's journal.", completion: .file())
  var journal: String?
  @Option(
    help: "Count only this time before the newest entry. What was before is still considered.",
    transform: duration)
  var since: Duration?
  @Option(help: "What a message costs, for the money saved.") var price: Double?
  @OptionGroup var global: GlobalOptions

  private static let maximumKeys = 10

  func validate() throws {
    guard let price else { return }
    guard (0...1_000_000).contains(price) else {
      throw ValidationError("--price is 0 to 1000000")
    }
  }

  func run(_ session: Session) async throws {
    let settings = try Policy.settings(of: file)
    let source = JournalSource(journal, session)
    let replay = Replay(settings, since: try await source.first(since))
    do {
      try await source.entries({ try replay.play($1) }, lost: replay.miss)
    } catch let problem as Replay.Problem {
      throw Failure(problem.text)
    }
    replay.finish()
    let report = replay.report
    global.show(json(report), lines(report, style: session.style))
  }

  private func maximum(_ report: Replay.Report) -> [(key: [UInt8], count: Int)] {
    let sorted = report.affected.sorted {
      $0.value == $1.value ? $0.key.lexicographicallyPrecedes($1.key) : $0.value > $1.value
    }
    return sorted.prefix(Self.maximumKeys).map { ($0.key, $0.value) }
  }

  private func saved(_ report: Replay.Report) -> Double? {
    price.map { $0 * Double(report.then.sends - report.now.sends) }
  }

  private func lines(_ report: Replay.Report, style: Style) -> [String] {
    let missing =
      report.missing > 0 ? ["missing: \(report.missing) entries were not kept"] : []
    guard let first = report.first else {
      return ["the journal has no decisions in that time"] + missing
    }
    func moment(_ microseconds: Int64) -> String {
      WallClock.text(unixMilliseconds: Int(microseconds / 1_000))
    }
    let (then, now) = (report.then, report.now)
    let waits = [then, now].map { $0.waits([50, 95]) }
    let reasons = Set(then.refused.keys).union(now.refused.keys).sorted()
    var rows = [["sends", "\(then.sends)", "\(now.sends)"]]
    rows += reasons.map {
      ["refused: \($0)", "\(then.refused[$0] ?? 0)", "\(now.refused[$0] ?? 0)"]
    }
    rows += ["wait, median", "wait, 95 %"].enumerated().map { place, title in
      [title] + waits.map { $0.map { Duration.milliseconds(Int($0[place])).humanText } ?? "-" }
    }
    let columns = Columns([
      .init(title: ""), .init(title: "then", alignRight: true),
      .init(title: "with these rules", alignRight: true),
    ])
    var lines = ["\(report.decisions) decisions, \(moment(first)) to \(moment(report.last))"]
    lines += columns.lines(rows, withTitles: true, style: style)
    lines.append("decisions that differ: \(report.differing)")
    lines.append(
      "customers lost: \(report.lostKeys.count) (\(report.lostPasses) codes that were entered would "
        + "not have been sent)")
    if let saved = saved(report) { lines.append("money saved: \(fixed(saved, 2))") }
    for (key, count) in maximum(report) {
      let name = String(decoding: key, as: UTF8.self).printable
      lines.append("affected: \(name), \(count) sends fewer")
    }
    for (problem, count) in report.undecided.sorted(by: { $0.key < $1.key }) {
      lines.append("undecided: \(count) times \(problem.printable)")
    }
    for (cause, count) in report.notComparable.sorted(by: { $0.key < $1.key }) {
      lines.append("not comparable: \(count) times, as \(cause)")
    }
    return lines + missing
  }

  private func counts(_ counts: [String: Int]) -> RESPValue {
    .map(counts.sorted { $0.key < $1.key }.map { .of($0.key, $0.value) })
  }

  private func json(_ report: Replay.Report) -> RESPValue {
    func tally(_ tally: Replay.Tally) -> RESPValue {
      let waits = tally.waits([50, 95])
      return .object([
        "sends": tally.sends, "refused": counts(tally.refused),
        "wait_median_ms": waits.map { Int($0[0]) }, "wait_95_ms": waits.map { Int($0[1]) },
      ])
    }
    return .object([
      "from_unix_ms": report.first.map { Int($0 / 1_000) },
      "to_unix_ms": Int(report.last / 1_000), "decisions": report.decisions,
      "differing": report.differing, "then": tally(report.then), "now": tally(report.now),
      "customers_lost": report.lostKeys.count, "codes_lost": report.lostPasses,
      "money_saved": saved(report),
      "affected": maximum(report).map {
        RESPValue.object(["key": RESPValue.bulkString($0.key), "sends": $0.count])
      },
      "undecided": counts(report.undecided), "not_comparable": counts(report.notComparable),
      "missing_entries": Int(report.missing),
    ])
  }
}

extension Replay.Tally {
  /// Returns the waits that so many percent of the refused requests did not exceed; nil if none was
  /// refused.
  fileprivate func waits(_ percents: [Int]) -> [Int64]? {
    guard !waits.isEmpty else { return nil }
    let sorted = waits.sorted()
    return percents.map { sorted[(sorted.count * $0 + 99) / 100 - 1] }
  }
}
