import Histogram

extension BenchReport {
  /// Returns the human-readable report.
  func lines(style: Style, width: Int = .max) -> [String] {
    var lines = [
      style.bold(
        "\(options.mix.rawValue): \(grouped(options.countdowns)) countdowns over "
          + "\(options.connections) connections, pipeline \(options.pipeline), "
          + (options.rate.map { "\(grouped($0)) commands a second wanted" } ?? "flat out"))
    ]
    lines.append(
      row("load", "\(grouped(Int(perSecond))) commands a second for \(fixed(seconds, 2)) s"))
    for stage in load.stages { lines.append(row(stage.name, percentiles(stage.latencies))) }
    if let pings {
      lines.append(row("ping", percentiles(pings.all) + " for another client meanwhile"))
      lines.append(row("", percentiles(pings.whileDue) + ", once events were due"))
    }
    if let events {
      let merged = after.rise("ticks_merged", since: before) ?? 0
      let ticks = events.ticks > 0 ? ", \(grouped(events.ticks)) ticks" : ""
      let mergedText = merged > 0 ? ", \(grouped(merged)) merged" : ""
      lines.append(row("events", "\(grouped(events.ready)) ready\(ticks)\(mergedText)"))
      lines.append(row("late", percentiles(events.late) + ", reported by the daemon"))
      let since = " after the deadline"
      lines.append(row("arrived", percentiles(events.arrivedLate) + since))
    }
    lines.append(row("daemon", daemonText))
    let found = problems
    let verdict =
      if !found.isEmpty {
        style.red(found.joined(separator: "; "))
      } else if isInterrupted {
        style.yellow("interrupted")
      } else {
        style.green("all accepted" + (events == nil ? "" : ", none early, none lost"))
      }
    lines.append(row("checked", verdict))
    if options.keep {
      lines.append(row("kept", "countdownctl clear --kind countdown --match '\(prefix)*'"))
    }
    return lines.flatMap { DisplayWidth.wrap($0, width, indent: Self.indent) }
  }

  private var daemonText: String {
    var parts: [String] = []
    if let processorPerCommand {
      parts.append("\(fixed(processorPerCommand, 2)) µs of processor time a command")
    }
    if let bytes = loaded.integer("used_memory_rss") {
      parts.append("\(fixed(Double(bytes) / 1_048_576, 1)) MiB")
    }
    if let memoryPerCountdown {
      parts.append("\(Int(memoryPerCountdown)) bytes a countdown")
    }
    return parts.isEmpty ? "reports no figures" : parts.joined(separator: ", ")
  }

  private func row(_ name: String, _ text: String) -> String {
    DisplayWidth.fit("  \(name)", Self.indent) + text
  }

  private static let indent = 12

  private func percentiles(_ latencies: Latencies) -> String {
    guard latencies.totalCount > 0 else { return "–" }
    let shown: [(String, UInt64)] = [
      ("p50", latencies.valueAtPercentile(50)), ("p99", latencies.valueAtPercentile(99)),
      ("p99.9", latencies.valueAtPercentile(99.9)), ("max", latencies.max),
    ]
    return shown.map { "\($0) \(fixed(Double($1) / 1_000, 3)) ms" }.joined(separator: "  ")
  }
}

/// Returns `1234567` as `1,234,567`.
func grouped(_ value: Int) -> String {
  let digits = Array(String(value.magnitude))
  var text = value < 0 ? "-" : ""
  for (index, digit) in digits.enumerated() {
    if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
    text.append(digit)
  }
  return text
}

/// Returns a number with this many digits after the decimal point.
func fixed(_ value: Double, _ digits: Int) -> String {
  guard value.isFinite, abs(value) < 1e15 else { return "\(value)" }
  var scale = 1
  for _ in 0..<digits { scale *= 10 }
  let scaled = Int((value * Double(scale)).rounded())
  guard digits > 0 else { return "\(scaled)" }
  let fraction = String(scaled.magnitude % UInt(scale))
  let zeros = String(repeating: "0", count: digits - fraction.count)
  return "\(scaled < 0 ? "-" : "")\(scaled.magnitude / UInt(scale)).\(zeros)\(fraction)"
}
