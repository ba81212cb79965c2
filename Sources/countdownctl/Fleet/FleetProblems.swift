import CountdownClient

extension FleetFacts {
  /// The clock difference above which it is a problem, in microseconds.
  private static let notableSkew = 100_000
  /// The age of the last heartbeat above which it is a problem, in milliseconds.
  private static let oldHeartbeat = 5_000

  /// Returns the problems of a fleet, each with advice.
  ///
  /// - Parameters:
  ///   - replicas: the setting `fleet.replicas`, if it is known: all, or a number.
  ///   - now: milliseconds since 1970.
  func problems(replicas: String?, now: Int) -> [String] {
    var problems = servers.filter { !$0.isConnected || !$0.error.isEmpty }.map(Self.serverProblem)
    if number("heartbeat_age_ms") > Self.oldHeartbeat, servers.allSatisfy(\.isConnected) {
      let age = Duration.milliseconds(number("heartbeat_age_ms")).humanText
      problems.append(
        "the servers have written nothing for \(age), though this host asks each second")
    }
    if servers.isEmpty {
      problems.append(
        "no server is known: check fleet.nodes and fleet.discovery, and that a node answers")
    }
    problems += sentinels.filter { !$0.error.isEmpty }.map {
      "Sentinel \($0.address): \($0.error). Check that it runs, and that this host may connect"
    }
    let known = number("sentinels_known")
    if known > sentinels.count {
      problems.append(
        "fleet.nodes names \(sentinels.count) of \(known) Sentinels, so a majority of those may be "
          + "none of all: name all of them")
    }
    let primaries = Set(sentinels.compactMap { $0.facts["primary"] }.filter { !$0.isEmpty })
    if primaries.count > 1 {
      problems.append(
        "the Sentinels name different primaries: \(primaries.sorted().joined(separator: ", ")). "
          + "If that lasts, compare `redis-cli -p 26379 SENTINEL masters` on each host")
    }
    problems += replicaProblems(replicas) + partitionProblems(now) + clockProblems()
    if number("policies_differ") > 0 {
      problems.append(
        "the policies of this host differ from those of another: give all hosts the same, then "
          + "`systemctl reload countdownd`")
    }
    return problems
  }

  private static func serverProblem(_ server: Peer) -> String {
    let reason = server.error.isEmpty ? "it does not answer" : server.error
    let advice =
      if reason.contains("noeviction") {
        "`redis-cli CONFIG SET maxmemory-policy noeviction` there, and set it in redis.conf"
      } else if server.facts["refuses"] == "memory" {
        "raise maxmemory there, or give the server more memory; until then nothing is accepted"
      } else if server.facts["refuses"] == "disk" {
        "make room on its disk: `redis-cli INFO persistence` shows what fails; then `BGSAVE`"
      } else if server.facts["refuses"] == "rights"
        || ["NOAUTH", "WRONGPASS", "NOPERM"].contains(where: reason.contains)
      {
        "check fleet.username and fleet.password-file, and the ACL of the server"
      } else if server.isConnected {
        "look at its log, and at `countdownctl fleet status` as root"
      } else {
        "check that it runs, that this host may connect to it, and that the unit's drop-in "
          + "for fleets is installed"
      }
    return "server \(server.address): \(reason). To do: \(advice)"
  }

  private func replicaProblems(_ setting: String?) -> [String] {
    guard let setting else { return [] }
    if setting == "0", ["sentinel", "cluster"].contains(self["discovery"]) {
      return [
        "fleet.replicas is 0, so a failover can lose sends that were accepted: set it to all"
      ]
    }
    return servers.filter(\.isConnected).compactMap { server in
      guard let has = server.number("replicas") else { return nil }
      guard let wanted = Int(setting) else {
        let missing = (server.facts["missing"] ?? "").split(separator: "|")
        if has == 0 {
          return "server \(server.address): it has no replica, so each change is UNSURE. Add one; "
            + "or, if there is to be none, set fleet.replicas to 0"
        }
        guard !missing.isEmpty else { return nil }
        return
          "server \(server.address): replica \(missing.joined(separator: ", ")) is missing, so "
          + "each change is UNSURE until it is back, or missing for fleet.replica-grace"
      }
      if has < wanted {
        return "server \(server.address): \(has) of \(wanted) replicas confirm changes, so each "
          + "change is UNSURE. Add a replica; or, if there is to be none, set fleet.replicas to 0"
      }
      guard has > wanted else { return nil }
      return
        "server \(server.address): it has \(has) replicas and fleet.replicas is \(wanted), so a "
        + "failover can lose sends that were accepted: set it to all"
    }
  }

  private func partitionProblems(_ now: Int) -> [String] {
    let count = number("partitions")
    var problems: [String] = []
    let refusedUntil = number("refused_until_unix_ms")
    if refusedUntil > now {
      problems.append(
        "the servers have lost records (FLUSHALL, a restart without data), so changes are refused "
          + "until \(WallClock.text(unixMilliseconds: refusedUntil)): nobody knows what was sent. "
          + "Restore a backup of the servers, wait, or `countdownctl fleet accept-loss`")
    }
    let unknown = number("unknown_partitions")
    if unknown > 0 {
      problems.append(
        "\(unknown) of \(count) partitions are unknown to their servers and to this host: for a new "
          + "fleet, `countdownctl fleet init` once; if records were lost, restore them, or "
          + "`countdownctl fleet accept-loss`")
    }
    let closed = count - number("open_partitions")
    if closed > unknown, servers.allSatisfy(\.isConnected) {
      problems.append("\(closed) of \(count) partitions are not open: see the daemon's log")
    }
    let missing = count - number("loaded_partitions")
    if missing > 0, closed == 0 {
      problems.append("\(missing) of \(count) partitions are still being loaded: ask again soon")
    }
    if number("broken_partitions") > 0 {
      problems.append(
        "\(number("broken_partitions")) of \(count) partitions do not answer in time: look at the "
          + "load of their servers, `redis-cli SLOWLOG GET`, and the network")
    }
    return problems
  }

  private func clockProblems() -> [String] {
    var problems: [String] = []
    if number("partitions_with_clock_ahead") > 0 {
      problems.append(
        "a server's clock is more than fleet.max-clock-skew ahead of what it or the server before has "
          + "shown, so its changes are refused: correct that clock")
    }
    guard let ahead = clockAhead else { return problems }
    let advice = "Synchronize the clocks of all hosts (`timedatectl`, chrony)"
    if ahead.upperBound - ahead.lowerBound > Self.notableSkew {
      let difference = Duration.microseconds(ahead.upperBound - ahead.lowerBound).humanText
      problems.append(
        "the servers' clocks differ by \(difference), so a failover moves deadlines. \(advice)")
    } else if max(ahead.upperBound.magnitude, ahead.lowerBound.magnitude) > Self.notableSkew {
      problems.append(
        "\(Self.clockText(ahead)). Times in replies are those of the servers. \(advice)")
    }
    return problems
  }
}
