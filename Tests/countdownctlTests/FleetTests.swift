import Testing

@testable import countdownctl

@Suite struct FleetTests {
  /// INFO fleet of a daemon that is well, with some lines replaced.
  static func facts(
    _ changed: [String: String] = [:], servers: [String] = ["", ""]
  ) throws -> FleetFacts {
    var lines = [
      "fleet_name": "default", "fleet_kinds": "countdown,timer", "discovery": "sentinel",
      "fleet_partitions": "16", "fleet_open_partitions": "16", "fleet_loaded_partitions": "16",
      "fleet_broken_partitions": "0", "fleet_clock_ahead_us": "-120..340", "fleet_copies": "1234",
      "fleet_changes": "56789", "fleet_refused_until_unix_ms": "0",
    ]
    for (index, error) in servers.enumerated() {
      lines["server\(index)"] =
        "address=10.0.0.\(index):6379,connected=\(error.isEmpty ? 1 : 0),version=7.0.15,"
        + "partitions=8,replicas=1,round_trip_us=150,error=\(error)"
    }
    lines.merge(changed) { $1 }
    let text = "# Fleet\r\n" + lines.map { "\($0):\($1)\r\n" }.joined()
    return try #require(FleetFacts(info: text))
  }

  @Test func aDaemonWithoutAFleetHasNoFacts() {
    #expect(FleetFacts(info: "# Fleet\r\n") == nil)
  }

  @Test func showsServersAndPartitions() throws {
    let lines = try Self.facts(servers: ["", "refused, twice"]).lines(
      style: Style(hasColour: false))
    #expect(
      lines == [
        "fleet       default, shares countdown timer",
        "servers     1 of 2 connected, discovery: sentinel",
        "partitions  16: 16 open, 16 loaded",
        "clock       the servers' clocks are up to 1 ms ahead of this host's",
        "entities    1,234 shared, 0 under way",
        "commands    56,789 changed, 0 unavailable, 0 unsure, 0 degraded",
        "",
        "SERVER         STATE      VERSION  PARTITIONS  ROUND TRIP  ERROR",
        "10.0.0.0:6379  connected  7.0.15            8      150 µs  ",
        "10.0.0.1:6379  down       7.0.15            8           –  refused, twice",
      ])
  }

  @Test func saysWhatAHostHasThatDoesNotHaveEverything() throws {
    let used = ["fleet_mirror": "used", "fleet_kept_partitions": "2", "fleet_partial": "1"]
    let facts = try Self.facts(used)
    let row = "entities    1,234 used here, 2 partitions kept, 0 under way"
    #expect(facts.lines(style: Style(hasColour: false)).contains(row))
    #expect(facts.omission(from: "timer")?.contains("not all of fleet 'default'") == true)
    #expect(facts.omission(from: "hud") == nil)
    #expect(try Self.facts().omission(from: "timer") == nil)
  }

  @Test func aFleetThatIsWellHasNoProblems() throws {
    #expect(try Self.facts().problems(replicas: "all", now: 0) == [])
    #expect(try Self.facts().problems(replicas: "1", now: 0) == [])
  }

  @Test(arguments: [
    (["server0": "address=a:1,connected=0,error=Connection refused"], "server a:1: Connection"),
    (["server0": "address=a:1,connected=0,error=set it to noeviction"], "maxmemory-policy"),
    (["server0": "address=a:1,connected=0,error=WRONGPASS"], "fleet.password-file"),
    (
      ["server0": "address=a:1,connected=1,refuses=memory,error=it refuses changes: OOM"],
      "it refuses changes: OOM. To do: raise maxmemory"
    ),
    (["server0": "address=a:1,connected=1,refuses=disk,error=x"], "make room on its disk"),
    (["server0": "address=a:1,connected=1,refuses=rights,error=x"], "the ACL of the server"),
    (["server0": "address=a:1,connected=1,refuses=,error=x"], "look at its log"),
    (["fleet_heartbeat_age_ms": "7000"], "written nothing for 7 s"),
    (["server1": "address=a:1,connected=1,replicas=0,error="], "0 of 1 replicas"),
    (["fleet_open_partitions": "3"], "13 of 16 partitions are not open"),
    (
      ["fleet_open_partitions": "0", "fleet_unknown_partitions": "16"],
      "for a new fleet, `countdownctl fleet init` once"
    ),
    (["fleet_loaded_partitions": "15"], "1 of 16 partitions are still being loaded"),
    (["fleet_broken_partitions": "2"], "2 of 16 partitions do not answer"),
    (["fleet_refused_until_unix_ms": "2000"], "the servers have lost records"),
    (["fleet_clock_ahead_us": "-150000..150000"], "differ by 300 ms"),
    (["fleet_clock_ahead_us": "-250000..-249000"], "250 ms behind this host's"),
    (["fleet_partitions_with_clock_ahead": "1"], "fleet.max-clock-skew"),
    (["sentinel0": "address=s:26379,primary=,error=down"], "Sentinel s:26379: down"),
    (
      [
        "sentinel0": "address=s:26379,primary=a:1,error=",
        "sentinel1": "address=t:26379,primary=b:1,error=",
      ], "different primaries: a:1, b:1"
    ),
    (["fleet_sentinels_known": "3"], "fleet.nodes names 0 of 3 Sentinels"),
    (["fleet_policies_differ": "1"], "the policies of this host differ"),
  ])
  func eachProblemIsFound(changed: [String: String], part: String) throws {
    let problems = try Self.facts(changed).problems(replicas: "1", now: 1000)
    #expect(problems.count == 1)
    #expect(problems.first?.contains(part) == true, "\(problems)")
  }

  @Test(arguments: [
    ("1", "replicas=2,", "it has 2 replicas and fleet.replicas is 1"),
    ("all", "replicas=0,", "it has no replica"),
    ("all", "replicas=1,missing=b:1|c:1,", "replica b:1, c:1 is missing"),
  ])
  func replicasThatDoNotConfirmAreReported(setting: String, facts: String, part: String) throws {
    let problems = try Self.facts(["server1": "address=a:1,connected=1,\(facts)error="])
      .problems(replicas: setting, now: 0)
    #expect(problems.count == 1)
    #expect(problems.first?.contains(part) == true, "\(problems)")
  }

  @Test func replicasAreMissedOnlyWhereAFailoverCanCome() throws {
    #expect(try Self.facts().problems(replicas: "0", now: 0).count == 1)
    let alone = ["discovery": "single", "server0": "address=a:1,connected=1,replicas=0,error="]
    #expect(try Self.facts(alone, servers: [""]).problems(replicas: "0", now: 0) == [])
  }
}
