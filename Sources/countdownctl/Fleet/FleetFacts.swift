import CountdownClient

/// The figures of `INFO fleet`: the status of a daemon and of the servers of its fleet.
struct FleetFacts {
  /// A server or a Sentinel, with its facts by name.
  struct Peer: Equatable {
    let facts: [String: String]

    var address: String { facts["address"] ?? "" }
    var isConnected: Bool { facts["connected"] == "1" }
    var error: String { facts["error"] ?? "" }
    func number(_ name: String) -> Int? { facts[name].flatMap { Int($0) } }
  }

  private let facts: ServerFacts
  let servers: [Peer]
  let sentinels: [Peer]

  /// Nil if the daemon is not part of a fleet.
  init?(info: String) {
    let facts = ServerFacts(info: info, without: "fleet_")
    guard facts["name"] != nil else { return nil }
    self.facts = facts
    func peers(_ name: String) -> [Peer] {
      (0...).lazy.map { facts["\(name)\($0)"] }.prefix { $0 != nil }.map {
        Peer(facts: ServerFacts.fields($0 ?? ""))
      }
    }
    servers = peers("server")
    sentinels = peers("sentinel")
  }

  /// What a list of a kind lacks; nil if it has everything.
  func omission(from kind: String) -> String? {
    guard number("partial") > 0, (self["kinds"] ?? "").split(separator: ",").contains(kind[...])
    else { return nil }
    return "only what this host holds is listed, not all of fleet '\(self["name"] ?? "")': its "
      + "fleet.mirror is used. A host with fleet.mirror all lists everything"
  }

  subscript(name: String) -> String? { facts[name] }

  func number(_ name: String) -> Int { self[name].flatMap { Int($0) } ?? 0 }

  /// The least and the most by which the servers' clocks are ahead of this host's, in microseconds.
  var clockAhead: ClosedRange<Int>? {
    let parts = (self["clock_ahead_us"] ?? "").split(separator: "..").compactMap { Int($0) }
    guard let first = parts.first, let last = parts.last, first <= last else { return nil }
    return first...last
  }
}

// MARK: Human-readable

extension FleetFacts {
  func lines(style: Style) -> [String] {
    let count = number("partitions")
    let broken = number("broken_partitions")
    let age = Duration.milliseconds(number("heartbeat_age_ms")).humanText
    let isMirror = self["mirror"] == "used"
    let facts: KeyValuePairs<String, String?> = [
      "fleet": "\(self["name"] ?? ""), shares \((self["kinds"] ?? "").replacing(",", with: " "))",
      "servers": "\(servers.count { $0.isConnected }) of \(servers.count) connected"
        + (self["discovery"].map { ", discovery: \($0)" } ?? "")
        + (self["encrypted"] == "1" ? ", encrypted" : ""),
      "partitions": "\(count): \(number("open_partitions")) open, "
        + "\(number("loaded_partitions")) loaded" + (broken > 0 ? ", \(broken) do not answer" : ""),
      "heartbeat": self["heartbeat_age_ms"].map { _ in "written \(age) ago" },
      "clock": clockAhead.map(Self.clockText),
      "entities": "\(grouped(number("copies"))) "
        + (isMirror ? "used here, \(number("kept_partitions")) partitions kept" : "shared")
        + ", \(number("under_way")) under way",
      "commands": "\(grouped(number("changes"))) changed, "
        + "\(grouped(number("unavailable"))) unavailable, \(grouped(number("unsure"))) unsure, "
        + "\(grouped(number("degraded"))) degraded",
      "hidden": number("hidden") == 0
        ? nil
        : "\(grouped(number("hidden"))) stored before it joined; "
          + "`countdownctl fleet import` moves them",
    ]
    let rows = facts.compactMap { name, text in text.map { (name, $0) } }
    let width = rows.map(\.0.count).max() ?? 0
    return rows.map { style.dim(DisplayWidth.fit($0, width)) + "  " + $1.printable }
      + (servers.isEmpty ? [] : [""] + serverLines(style))
      + (sentinels.isEmpty ? [] : [""] + sentinelLines(style))
  }

  private func serverLines(_ style: Style) -> [String] {
    Columns([
      .init(title: "SERVER"), .init(title: "STATE"), .init(title: "VERSION"),
      .init(title: "PARTITIONS", alignRight: true), .init(title: "ROUND TRIP", alignRight: true),
      .init(title: "ERROR", limit: 100),
    ]).lines(
      servers.map { server in
        let isUp = server.isConnected
        return [
          server.address, isUp ? "connected" : "down", server.facts["version"] ?? "",
          server.facts["partitions"] ?? "",
          isUp ? "\(server.number("round_trip_us") ?? 0) µs" : "–", server.error,
        ]
      }, withTitles: true, style: style
    ) { row, column, cell in
      guard column == 1 else { return cell }
      return servers[row].isConnected ? style.green(cell) : style.red(cell)
    }
  }

  private func sentinelLines(_ style: Style) -> [String] {
    Columns([
      .init(title: "SENTINEL"), .init(title: "PRIMARY"), .init(title: "ERROR", limit: 100),
    ]).lines(
      sentinels.map { [$0.address, $0.facts["primary"] ?? "", $0.error] }, withTitles: true,
      style: style)
  }

  static func clockText(_ ahead: ClosedRange<Int>) -> String {
    func text(_ microseconds: Int) -> String {
      Duration.microseconds(microseconds.magnitude).humanText
        + (microseconds < 0 ? " behind" : " ahead of")
    }
    let bound =
      ahead.upperBound.magnitude > ahead.lowerBound.magnitude
      ? ahead.upperBound : ahead.lowerBound
    return "the servers' clocks are up to \(text(bound)) this host's"
  }
}
