import Countdowns
import SeededRandom
import Testing
import Wire

@testable import CountdownFleet

/// What is sent to the servers of a fleet, and what their answers mean.
struct FleetCodingTests {
  private let key = FleetKey(.countdown, Array("login:1".utf8))
  private let version = FleetVersion(daemon: 0x0102_0304_0506_0708, operation: 9)

  // MARK: Slots

  /// Values of the Redis Cluster specification, and of `CLUSTER KEYSLOT`.
  @Test func checksumsAndSlotsAreThoseOfRedisCluster() {
    #expect(CRC16.of("123456789".utf8) == 0x31C3)
    #expect(ClusterMap.slot(ofTag: "") == 0)
    #expect(ClusterMap.slot(ofTag: "foo") == 12_182)
    #expect(ClusterMap.slot(ofTag: "bar") == 5_061)
    #expect(ClusterMap.slot(ofTag: "user1000") == 3_443)
  }

  @Test func aMapOfSlotsNamesPrimariesAndAllNodes() throws {
    let map = try #require(
      ClusterMap(
        .array([
          .array([
            .integer(0), .integer(8_191), node("10.0.0.1", 7_000), node("10.0.0.2", 7_001),
          ]),
          // A node that does not know its own address, and one without any.
          .array([.integer(8_192), .integer(16_383), node("", 7_002), node(nil, 7_003)]),
        ]), from: FleetSettings.Node(host: "seed", port: 1)))
    #expect(map.primary(of: 0)?.text == "10.0.0.1:7000")
    #expect(map.primary(of: 8_192)?.text == "seed:7002")
    #expect(map.nodes.map(\.text) == ["10.0.0.1:7000", "10.0.0.2:7001", "seed:7002", "seed:7003"])
  }

  @Test func aMapWithImpossibleSlotsIsRefused() {
    for (first, last) in [(-1, 5), (6, 5), (0, 16_384)] {
      let entry = RESPValue.array([.integer(first), .integer(last), node("a", 1)])
      #expect(ClusterMap(.array([entry]), from: FleetSettings.Node(host: "a", port: 1)) == nil)
    }
    for port in [0, 65_536, -1] {
      let entry = RESPValue.array([.integer(0), .integer(1), node("a", port)])
      #expect(ClusterMap(.array([entry]), from: FleetSettings.Node(host: "a", port: 1)) == nil)
    }
  }

  @Test func aNodeWithoutAMajorityIsNotTrusted() {
    let text = "cluster_enabled:1\r\ncluster_state:fail\r\ncluster_current_epoch:7\r\n"
    #expect(ClusterState(.bulkString(text.utf8Array))?.isOK == false)
    let ok = "cluster_state:ok\r\ncluster_current_epoch:7\r\n"
    let state = ClusterState(.bulkString(ok.utf8Array))
    #expect(state?.isOK == true && state?.epoch == 7)
  }

  @Test func whatAPrimarySaysOfItsReplicasIsRead() throws {
    let text = """
      # Replication\r
      role:master\r
      connected_slaves:3\r
      slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=1\r
      slave1:ip=fe80::1,port=6380,state=wait_bgsave,offset=0,lag=\(Int.max)\r
      slave2:ip=10.0.0.4,port=x,state=online,offset=14,lag=0\r
      slave_read_only:1\r
      master_repl_offset:15\r\n
      """
    let report = try #require(ReplicaSet.Report(.bulkString(text.utf8Array)))
    #expect(report.offset == 15)
    #expect(report.replicas.keys.map(\.text).sorted() == ["10.0.0.2:6379", "[fe80::1]:6380"])
    let online = report.replicas[FleetSettings.Node(host: "10.0.0.2", port: 6_379)]
    #expect(online == ReplicaSet.Replica(offset: 14, silence: 1_000_000, isOnline: true))
    let joining = report.replicas[FleetSettings.Node(host: "fe80::1", port: 6_380)]
    #expect(joining?.isOnline == false && (joining?.silence ?? 0) > 1_000_000_000)
    for damaged in ["role:slave\nmaster_repl_offset:15", "role:master", "", ":\n:"] {
      #expect(ReplicaSet.Report(.bulkString(damaged.utf8Array)) == nil)
    }
    #expect(ReplicaSet.Report(.error("NOAUTH")) == nil)
  }

  @Test func numbersInRequestsHaveAllTheirDigits() {
    let digits = [[UInt8](decimal: UInt64.max), [UInt8](decimal: Int64.min), [UInt8](decimal: 0)]
    #expect(digits == ["\(UInt64.max)", "\(Int64.min)", "0"].map(\.utf8Array))
  }

  private func node(_ host: String?, _ port: Int) -> RESPValue {
    let name = host.map { RESPValue.bulkString($0.utf8Array) } ?? .null
    return .array([name, .integer(port), .bulkString("id".utf8Array), .array([])])
  }

  // MARK: Sentinels

  @Test func answersAreValidInTheFirstSecondsAfterBootToo() {
    #expect(FleetQuestions.isValid(900_000, asked: 800_000, since: 0, now: 1_000_000))
    #expect(!FleetQuestions.isValid(900_000, asked: 800_000, since: 850_000, now: 1_000_000))
    #expect(!FleetQuestions.isValid(900_000, asked: 800_000, since: 0, now: 3_400_000))
    #expect(FleetQuestions.isValid(900_000, asked: 800_000, since: 0, now: 3_399_999))
  }

  @Test func aSentinelSaysHowManyOthersItKnows() {
    func answer(_ words: String...) -> RESPValue {
      .array(words.map { .bulkString($0.utf8Array) })
    }
    let found = SentinelDiscovery.others(answer("name", "mymaster", "num-other-sentinels", "4"))
    #expect(found == 4)
    #expect(SentinelDiscovery.others(answer("name", "mymaster")) == 0)
    #expect(SentinelDiscovery.others(.error("ERR No such master with that name")) == 0)
  }

  // MARK: Names

  @Test func dataIsNamedByFleetAndPartition() {
    let names = FleetNames("shop.eu", 12)
    #expect(names.records == "cd:{shop.eu.12}:records".utf8Array)
    #expect(names.stream == "cd:{shop.eu.12}:ev".utf8Array)
    #expect(names.epoch == "cd:{shop.eu.12}:epoch".utf8Array)
  }

  @Test func recordsAreNamedByKindAndKey() {
    #expect(FleetNames.text(key) == "countdown:login:1".utf8Array)
    #expect(FleetNames.key("countdown:login:1".utf8) == key)
    #expect(FleetNames.key("unknown:a".utf8) == nil)
  }

  // MARK: Answers

  private var change: FleetRequest {
    .change(
      key,
      FleetChange(
        epoch: [1], expected: nil, version: version, record: [7], events: [], earliest: 0,
        latest: .max))
  }

  @Test func refusalsOfTheServerAreCertain() {
    for error in ["MOVED 1 a:1", "READONLY x", "OOM x", "NOSCRIPT x", "LOADING x", "CLUSTERDOWN x"]
    {
      guard
        case .failed(mayBeDone: false, FleetRefusal(error).text) = change.answer(.error(error)).body
      else {
        Issue.record("\(error) is not taken for a refusal")
        continue
      }
    }
    guard case .failed(mayBeDone: true, _) = change.answer(.error("ERR something")).body else {
      Issue.record("an unknown error may mean that the change is made")
      return
    }
    guard
      case .failed(mayBeDone: false, _) = FleetRequest.read(key).answer(.error("ERR some")).body
    else {
      Issue.record("a read changes nothing")
      return
    }
  }

  @Test func aStoredRecordHasItsVersionFirst() {
    #expect(FleetRecord.stored([]) == .some(nil))
    #expect(FleetRecord.stored(version.bytes) == nil)
    #expect(FleetRecord.stored([1, 2, 3]) == nil)
    #expect(FleetRecord.stored(version.bytes + [5]) == FleetRecord(version, [5]))
  }

  @Test func entriesOfStreamsAreReadAndOthersPassedOver() {
    func entry(_ id: String, _ fields: [(String, [UInt8])]) -> FleetEntry? {
      FleetEntry(
        .array([
          .bulkString(id.utf8Array),
          .array(fields.flatMap { [.bulkString($0.0.utf8Array), .bulkString($0.1)] }),
        ]))
    }
    let fields: [(String, [UInt8])] = [
      ("k", FleetNames.text(key)), ("v", version.bytes), ("r", []), ("e", [1]),
    ]
    #expect(
      entry("5-0", fields)
        == FleetEntry(number: 5, key: key, version: version, record: nil, events: [1]))
    #expect(entry("5-1", fields) == nil)
    #expect(entry("x", fields) == nil)
    #expect(entry("\(Int64.max)-0", fields) == nil)
    #expect(entry("5-0", fields + [("t", "\(Int64.max)".utf8Array)])?.time == nil)
    #expect(entry("5-0", [("k", [1]), ("v", version.bytes), ("r", []), ("e", [])]) == nil)
    for index in fields.indices {
      #expect(entry("5-0", fields.indices.filter { $0 != index }.map { fields[$0] }) == nil)
    }
  }

  @Test func timesThatWouldOverflowAreNotUnderstood() {
    for time in [Int.max, Int.min] {
      let answer = FleetRequest.read(key).answer(
        .array([.integer(time), .bulkString(version.bytes + [1])]))
      guard case .failed = answer.body else {
        Issue.record("\(time) is taken for a time")
        continue
      }
    }
  }

  /// Whatever a server sends is an answer or a failure.
  @Test func randomAnswersNeverCrash() {
    var random = SeededGenerator(seed: 20)
    let requests: [FleetRequest] = [
      change, .read(key),
      .open(FleetOpening(known: [], new: [1], refusal: 1, position: 0)),
    ]
    let words = ["changed", "differs", "clock", "epoch", "", "5-0", "k", "v", "r", "e"]
    func value(_ depth: Int) -> RESPValue {
      switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &random) {
      case 0: .integer(Int.random(in: -3...9, using: &random))
      case 1: .bulkString(words.randomElement(using: &random)!.utf8Array)
      case 2: .bulkString(version.bytes + [1])
      case 3: .null
      case 4: .error(["ERR", "MOVED", ""].randomElement(using: &random)!)
      case 5: .simpleString("countdown:a")
      default:
        .array((0..<Int.random(in: 0..<6, using: &random)).map { _ in value(depth - 1) })
      }
    }
    for _ in 0..<20_000 {
      let value = value(3)
      for request in requests { _ = request.answer(value) }
      _ = FleetEntry(value)
      _ = ClusterMap(value, from: FleetSettings.Node(host: "a", port: 1))
      _ = ClusterState(value)
    }
  }
}
