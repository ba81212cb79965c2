import Countdowns
import Foundation
import Glibc
import Logging
import Runtime
import SeededRandom
import Simulation
import Testing
import Wire

@testable import CountdownFleet

/// The link to the servers of a fleet, with a real redis-server.
@Suite(.enabled(if: RedisServer.isInstalled, "redis-server is not installed"), .serialized)
struct FleetServersTests {
  private let key = FleetKey(.countdown, Array("a".utf8))
  private let epoch = Array("epoch-of-a-test!".utf8)

  @Test func aChangeIsMadeReadFollowedAndLoaded() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }

    link.open(2, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    guard case .opened(epoch, let number, 0, nil, nil, _) = link.client.answers[1]?.body else {
      throw Failure("not opened: \(link.client.answers)")
    }
    link.servers.follow(2, after: number)

    let first = FleetVersion(daemon: 1, operation: 1)
    link.change(2, key, from: nil, to: first, record: [1, 2, 3], id: 2)
    try link.wait("changed") { $0.answers[2] != nil && $0.entries.count == 1 }
    guard case .changed(number + 1, nil) = link.client.answers[2]?.body else {
      throw Failure("not changed: \(link.client.answers)")
    }
    var entry = FleetEntry(
      number: number + 1, key: key, version: first, record: [1, 2, 3], events: [9])
    entry.time = link.client.answers[2]?.engine
    #expect(entry.time != nil)
    #expect(link.client.entries == [entry])

    // Somebody else decided on what was there before.
    link.change(2, key, from: nil, to: FleetVersion(daemon: 2, operation: 1), record: [4], id: 3)
    try link.wait("refused") { $0.answers[3] != nil }
    guard case .differs(FleetRecord(first, [1, 2, 3])) = link.client.answers[3]?.body else {
      throw Failure("did not differ: \(link.client.answers)")
    }

    link.servers.load(2, only: nil)
    try link.wait("loaded") { $0.loaded == [2] }
    #expect(link.client.records.map(\.0) == [key])

    let second = FleetVersion(daemon: 1, operation: 2)
    link.change(2, key, from: first, to: second, record: nil, id: 4)
    link.servers.send(.read(key), id: 5, to: 2)
    try link.wait("deleted") { $0.answers[5] != nil && $0.entries.count == 2 }
    guard case .record(nil) = link.client.answers[5]?.body else {
      throw Failure("still there: \(link.client.answers)")
    }
    #expect(link.client.entries.last?.record == nil)
    link.open(2, new: [1], id: 6, known: epoch, position: number + 2)
    try link.wait("opened again") { $0.answers[6] != nil }
    guard case .opened(epoch, number + 2, 0, second, second, _) = link.client.answers[6]?.body
    else {
      throw Failure("not as it was: \(link.client.answers)")
    }
  }

  @Test func epochsAreKeptAsTheModelSays() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    let (a, b) = (epoch, Array("another-epoch...".utf8))
    let openings: [(known: [UInt8], new: [UInt8], beginning: FleetBeginning?)] = [
      ([], a, nil), ([], a, .initialize), ([], b, nil), (a, b, nil), (b, a, nil), ([], b, nil),
      (a, b, .acceptLoss), (b, a, nil), ([], b, .initialize),
    ]
    var model: ModelEpoch?
    for (index, one) in openings.enumerated() {
      let id = UInt64(index + 1)
      link.open(3, new: one.new, id: id, known: one.known, beginning: one.beginning)
      try link.wait("answered") { $0.answers[id] != nil }
      let answer = try #require(link.client.answers[id])
      var opening = FleetOpening(known: one.known, new: one.new, refusal: 1_000_000, position: 0)
      opening.beginning = one.beginning
      model = ModelEpoch.open(model, opening, at: try #require(answer.engine))
      switch (answer.body, model) {
      case (.closed(.unknown), nil): break
      case (.opened(let id, let number, let until, _, _, _), let model?):
        #expect((id, number, until) == (model.id, model.number, model.refusedUntil), "\(index)")
      default: Issue.record("\(index): \(answer.body), \(String(describing: model))")
      }
    }
    #expect(model != nil)
  }

  @Test func recordsOfOtherScriptsAreLeftAlone() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(2, new: epoch)
    try link.wait("opened") { $0.answers[1] != nil }
    try redis.command("HSET", "cd:{default.2}:epoch", "scripts", "9")
    link.change(2, key, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: [1], id: 2)
    link.open(2, new: epoch, id: 3, known: epoch)
    try link.wait("answered") { $0.answers.count == 3 }
    guard case .epoch = link.client.answers[2]?.body,
      case .closed(.otherScripts("9")) = link.client.answers[3]?.body
    else { throw Failure("\(link.client.answers)") }
  }

  @Test func recordsOfSomeKeysAreLoaded() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(2, new: epoch)
    let keys = (0..<250).map { FleetKey(.timer, "\($0)".utf8Array) }
    for (number, key) in keys.enumerated() where number % 2 == 0 {
      link.change(
        2, key, from: nil, to: FleetVersion(daemon: 1, operation: UInt64(number)), record: [1],
        id: UInt64(number + 2))
    }
    try link.wait("changed") { $0.answers.count == 126 }
    // Others that are wanted meanwhile.
    link.servers.load(2, only: Array(keys[..<3]))
    link.servers.flush()
    link.servers.load(2, only: Array(keys[20...]))
    try link.wait("loaded") { $0.loaded == [2] }
    let found = link.client.records.map(\.0).filter { $0 != keys[0] && $0 != keys[2] }
    #expect(found == stride(from: 20, to: 250, by: 2).map { keys[$0] })
  }

  @Test func theKeepersLeaseIsGivenAsTheModelSays() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    var random = SeededGenerator(seed: 43)
    var model = ModelLeases()
    var asked: [FleetKeeping] = []
    for count in [60, 3, 60] {
      for _ in 0..<count {
        var keeping = FleetKeeping(
          host: .random(in: 1...3, using: &random), blockedUntil: .random(in: 0...9, using: &random)
        )
        keeping.load =
          Int.random(in: 0..<9, using: &random) == 0 ? nil : .random(in: 0...5, using: &random)
        keeping.relieves = Bool.random(using: &random)
        asked.append(keeping)
        link.open(1, new: epoch, id: UInt64(asked.count), keeping: keeping)
      }
      try link.wait("opened") { $0.answers.count == asked.count }
      // Until leases are over.
      let end = ContinuousClock.now + .microseconds(FleetKeeping.length + 1_000)
      try link.wait("later") { _ in count > 3 || ContinuousClock.now > end }
    }
    for (index, keeping) in asked.enumerated() {
      let answer = try #require(link.client.answers[UInt64(index + 1)])
      guard case .opened(_, _, _, _, _, let leases) = answer.body else {
        throw Failure("\(answer)")
      }
      let expected = model.open(nil, keeping, at: try #require(answer.engine))
      #expect(leases == expected, "\(index): \(keeping)")
    }
    #expect(Set(asked.map(\.host)).count == 3)
  }

  /// A new server gives hosts time to renew their leases, but for those whose end others have relied
  /// on: their hosts must learn that, and close the connections that have lost something.
  @Test func aLeaseThatAChangeHasFoundOverStaysOver() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(1, new: epoch)
    try link.wait("opened") { $0.answers[1] != nil }
    let timer = FleetKey(.timer, "t".utf8Array)
    // Both have been over for long.
    try redis.command("HSET", "cd:{cd.1}:leases", "at", "1", "quiet", "1", "7", "1", "8", "1")
    link.change(
      1, timer, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: [1], gone: 7, id: 2)
    try link.wait("changed") { $0.answers[2] != nil }
    guard case .changed = link.client.answers[2]?.body else {
      throw Failure("\(link.client.answers)")
    }
    // Nobody has opened the partition for long, so the lease of the other has longer.
    for (id, host, over) in [(3, 8, [7]), (4, 7, [7])] as [(UInt64, UInt32, Set<UInt32>)] {
      link.open(1, new: epoch, id: id, known: epoch, lease: host)
      try link.wait("opened again") { $0.answers[id] != nil }
      guard case .opened(_, _, _, _, _, let leases) = link.client.answers[id]?.body else {
        throw Failure("\(link.client.answers)")
      }
      #expect(leases.over == over, "\(host)")
    }
    link.change(
      1, timer, from: FleetVersion(daemon: 1, operation: 1),
      to: FleetVersion(daemon: 1, operation: 2), record: [2], gone: 8, id: 5)
    try link.wait("refused") { $0.answers[5] != nil }
    guard case .lease(isOver: false) = link.client.answers[5]?.body else {
      throw Failure("\(link.client.answers)")
    }
  }

  @Test func scriptsThatWereRemovedAreSentAgain() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    try redis.command("SCRIPT", "FLUSH")
    link.open(0, new: epoch)
    link.servers.send(.read(key), id: 2, to: 0)
    try link.wait("opened") { $0.answers.count == 2 }
    guard case .opened = link.client.answers[1]?.body,
      case .record(nil) = link.client.answers[2]?.body
    else { throw Failure("\(link.client.answers)") }
  }

  /// While replicas are asked, the next requests gather.
  @Test func requestsThatAreRepeatedStayBeforeNewerOnes() throws {
    let redis = try RedisServer()
    let link = try Link(redis) { $0.replicas = .count(1) }
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(0, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    try redis.command("SCRIPT", "FLUSH")
    let versions = (1...3).map { FleetVersion(daemon: 1, operation: $0) }
    for index in 0..<3 {
      link.change(
        0, key, from: index == 0 ? nil : versions[index - 1], to: versions[index], record: [1],
        id: UInt64(index + 2))
      if index == 1 { link.servers.flush() }
    }
    try link.wait("changed") { $0.answers.count == 4 }
    for id in 2...4 as ClosedRange<UInt64> {
      guard case .changed = link.client.answers[id]?.body else {
        throw Failure("\(link.client.answers)")
      }
    }
    #expect(link.client.order == [1, 2, 3, 4])
  }

  @Test func aDamagedRecordIsReportedAndTheOthersAreLoaded() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(2, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    link.change(
      2, key, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: [1], id: 2)
    try link.wait("changed") { $0.answers.count == 2 }
    try redis.command("HSET", "cd:{default.2}:records", "timer:x", "short")
    link.servers.load(2, only: nil)
    try link.wait("loaded") { $0.loaded == [2] }
    #expect(link.client.records.map(\.0) == [key])
    #expect(link.client.unreadable == [FleetKey(.timer, Array("x".utf8))])
  }

  @Test func aServerThatMayForgetRecordsIsNotUsed() throws {
    let redis = try RedisServer("--maxmemory-policy", "allkeys-lru")
    let link = try Link(redis)
    try link.wait("refused") { _ in link.servers.trouble?.contains("noeviction") == true }
    #expect(link.client.connected.isEmpty)
  }

  @Test func aServerThatRefusesChangesIsFoundByItsHeartbeat() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(2, new: epoch)
    try link.wait("opened") { $0.answers[1] != nil }
    #expect(link.client.answers[1]?.refusal == nil)
    let faults: [(refusal: FleetRefusal, begin: [String], end: [String])] = [
      (.memory, ["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
      (.rights, ["ACL", "SETUSER", "default", "-@write"], ["ACL", "SETUSER", "default", "+@all"]),
      (.rights, ["ACL", "SETUSER", "default", "-xadd"], ["ACL", "SETUSER", "default", "+@all"]),
      (.elsewhere, ["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
    ]
    var id: UInt64 = 2
    for fault in faults {
      try redis.command(fault.begin)
      link.open(2, new: epoch, id: id, known: epoch)
      link.change(
        2, key, from: nil, to: FleetVersion(daemon: 1, operation: id), record: [1], id: id + 1)
      try link.wait("refused") { $0.answers[id + 1] != nil }
      #expect(link.client.answers[id]?.refusal == fault.refusal)
      #expect(link.client.answers[id + 1]?.refusal == fault.refusal)
      guard case .failed(mayBeDone: false, fault.refusal.text) = link.client.answers[id + 1]?.body
      else { throw Failure("\(link.client.answers)") }
      try link.wait("reported") { _ in
        link.servers.refusals == [fault.refusal: 1]
          && link.servers.trouble?.contains(fault.refusal.text) == true
      }
      try redis.command(fault.end)
      link.open(2, new: epoch, id: id + 2, known: epoch)
      try link.wait("opened again") { $0.answers[id + 2] != nil }
      try link.wait("no longer reported") { _ in
        link.servers.refusals.isEmpty && link.servers.trouble == nil
      }
      id += 3
    }
  }

  @Test func entriesThatDoNotComeAreReported() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(2, new: epoch)
    try link.wait("opened") { $0.answers[1] != nil }
    guard case .opened(_, let number, _, _, _, _) = link.client.answers[1]?.body else {
      throw Failure("\(link.client.answers)")
    }
    link.servers.follow(2, after: number)
    // A change that is in no stream.
    try redis.command(["HINCRBY", "cd:{default.2}:epoch", "n", "1"])
    var id: UInt64 = 2
    func heartbeat() {
      link.open(2, new: epoch, id: id, known: epoch)
      id += 1
    }
    try link.wait("late") { _ in
      heartbeat()
      return link.servers.unreadPartitions == 1
    }
    #expect(link.servers.trouble?.contains("have not come") == true)
    link.change(2, key, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: [1], id: 0)
    try link.wait("read") { _ in
      heartbeat()
      return link.servers.trouble == nil
    }
  }

  @Test func largeEntriesAreReadInPieces() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    for partition in 0..<4 { link.open(partition, new: epoch, id: UInt64(partition + 1)) }
    try link.wait("opened") { $0.answers.count == 4 }
    let record = [UInt8](repeating: 7, count: 64 << 10)
    for index in 0..<800 {
      link.change(
        index % 4, FleetKey(.timer, "\(index)".utf8Array), from: nil,
        to: FleetVersion(daemon: 1, operation: UInt64(index)), record: record,
        id: UInt64(index + 100))
      // A few at once: a server that takes two seconds for all of them would seem to hang.
      if index % 40 == 39 { try link.wait("changed") { $0.answers.count == index + 5 } }
    }
    for partition in 0..<4 {
      guard
        case .opened(_, let number, _, _, _, _) = link.client.answers[UInt64(partition + 1)]?.body
      else { throw Failure("not opened") }
      link.servers.follow(partition, after: number)
    }
    try link.wait("read") { $0.entries.count == 800 }
    #expect(link.client.maximumEntries <= 16)
  }

  @Test func aReplyOfTheStreamsHasABoundedSize() {
    func entries(_ count: Int, _ bytes: Int) -> [RESPValue] {
      Array(repeating: .bulkString(Array(repeating: 0, count: bytes)), count: count)
    }
    var portion = StreamPortion()
    let first = portion.count
    // Small entries, and always more of them.
    for _ in 0..<20 { portion.take([entries(portion.count, 100)], of: 16) }
    #expect(portion.count == 1_000)
    portion.take([entries(portion.count, 64 << 10)], of: 16)
    #expect(portion.count == 4)
    for _ in 0..<5 { portion.fail() }
    #expect(portion.count == 1)
    portion.take([entries(1, 100)], of: 16)
    #expect(portion.count == 2)
    portion.take([], of: 16)
    #expect(portion.count == first)
    portion.take([entries(first, 16 << 20)], of: 1_024)
    #expect(portion.count == 1)
  }

  @Test func aServerThatEndsIsNoticedAndFoundAgain() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    redis.end()
    try link.wait("disconnected") { $0.disconnected.count == 4 }
    link.servers.send(.read(key), id: 1, to: 0)
    try link.wait("failed") { $0.answers[1] != nil }
    guard case .failed(mayBeDone: false, _) = link.client.answers[1]?.body else {
      throw Failure("\(link.client.answers)")
    }
    let again = try RedisServer(port: redis.port)
    try link.wait("connected again") { $0.connected.count == 8 }
    withExtendedLifetime(again) {}
  }

  @Test func aServerThatHangsFailsItsRequestsWithinTwoSeconds() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(0, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    redis.pause()
    let version = FleetVersion(daemon: 1, operation: 1)
    link.change(0, key, from: nil, to: version, record: [1], id: 2)
    try link.wait("failed") { $0.answers[2] != nil }
    guard case .failed(mayBeDone: true, _) = link.client.answers[2]?.body else {
      throw Failure("\(link.client.answers)")
    }
    #expect(link.client.disconnected.count == 4)
  }

  @Test func aPasswordIsSent() throws {
    let redis = try RedisServer("--requirepass", "secret word")
    let file = redis.directory + "/password"
    try "secret word\n".write(toFile: file, atomically: true, encoding: .utf8)
    let link = try Link(redis) { $0.passwordFile = file }
    try link.wait("connected") { $0.connected.count == 4 }
  }

  @Test(arguments: ["of the sentinels", ""])
  func sentinelsReceiveTheirOwnPasswordOnly(password: String) throws {
    // It answers that it is no Sentinel, but to those only whose password is right.
    let redis = try RedisServer(
      password.isEmpty ? ["--loglevel", "notice"] : ["--requirepass", password])
    let (own, other) = (redis.directory + "/own", redis.directory + "/other")
    try password.write(toFile: own, atomically: true, encoding: .utf8)
    try "of the servers".write(toFile: other, atomically: true, encoding: .utf8)
    let link = try Link(redis) {
      ($0.discovery, $0.passwordFile, $0.sentinelPasswordFile) = (.sentinel, other, own)
    }
    try link.wait("asked") { _ in
      let sentinel =
        link.servers.figures(forAdmin: true).first { $0.name == "fleet_sentinel0" }?.value ?? ""
      #expect(!sentinel.contains("WRONGPASS"))
      return sentinel.contains("unknown command")
    }
  }

  @Test func passwordsAreReadAgain() throws {
    let redis = try RedisServer("--requirepass", "old")
    let file = redis.directory + "/password"
    try "old".write(toFile: file, atomically: true, encoding: .utf8)
    var settings = FleetSettings()
    settings.passwordFile = file
    let link = try Link(redis) { $0.passwordFile = file }
    try link.wait("connected") { $0.connected.count == 4 }
    try redis.command("-a", "old", "CONFIG", "SET", "requirepass", "new")
    try "new".write(toFile: file, atomically: true, encoding: .utf8)
    link.servers.take(Result { () throws(FleetError) in try FleetSecrets.Files(settings) })
    try redis.command("-a", "new", "CLIENT", "KILL", "TYPE", "normal")
    try link.wait("connected again") { $0.connected.count == 8 }
    // A file that is missing changes nothing.
    try FileManager.default.removeItem(atPath: file)
    link.servers.take(Result { () throws(FleetError) in try FleetSecrets.Files(settings) })
    try redis.command("-a", "new", "CLIENT", "KILL", "TYPE", "normal")
    try link.wait("connected once more") { $0.connected.count == 12 }
  }

  @Test func anEncryptedServerIsVerifiedByItsName() throws {
    let authority = try Authority()
    let certificate = try authority.certificate(for: "localhost")
    let redis = try RedisServer.encrypted(certificate, authority)
    let link = try Link(redis) {
      $0.tls.isEnabled = true
      $0.tls.authorities = authority.file
    }
    try link.wait("connected") { $0.connected.count == 4 }
    // More than one record of TLS.
    link.open(0, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    let record = [UInt8](repeating: 7, count: 100_000)
    link.change(0, key, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: record, id: 2)
    link.servers.send(.read(key), id: 3, to: 0)
    try link.wait("read") { $0.answers[3] != nil }
    guard case .record(let found) = link.client.answers[3]?.body else {
      throw Failure("\(link.client.answers)")
    }
    #expect(found?.bytes == record)
  }

  @Test func anEncryptedServerOfAnotherNameIsRefused() throws {
    let authority = try Authority()
    let redis = try RedisServer.encrypted(
      try authority.certificate(for: "elsewhere"), authority)
    let link = try Link(redis) {
      $0.tls.isEnabled = true
      $0.tls.authorities = authority.file
    }
    try link.wait("refused") { _ in
      link.servers.trouble?.localizedCaseInsensitiveContains("hostname mismatch") == true
    }
  }

  @Test func anEncryptedServerOfAnotherAuthorityIsRefused() throws {
    let authority = try Authority()
    let other = try Authority()
    let redis = try RedisServer.encrypted(try other.certificate(for: "localhost"), other)
    let link = try Link(redis) {
      $0.tls.isEnabled = true
      $0.tls.authorities = authority.file
    }
    try link.wait("refused") { _ in
      link.servers.trouble?.contains("certificate is not accepted") == true
    }
  }

  @Test func aServerThatSpeaksNonsenseIsClosed() throws {
    for bytes in ["nonsense\r\n", "$99999999999\r\n", "*-7\r\n", "+OK\r\n", ":1\r\n"] {
      let server = try StandIn(answer: bytes)
      let link = try Link(port: server.port)
      try link.wait("refused") { _ in link.servers.trouble?.contains("(") == true }
      #expect(link.client.connected.isEmpty)
    }
  }

  @Test func replicasThatAreMissingAreReported() throws {
    let redis = try RedisServer()
    let link = try Link(redis) { $0.replicas = .count(1) }
    try link.wait("connected") { $0.connected.count == 4 }
    link.open(0, new: epoch)
    try link.wait("opened") { $0.answers.count == 1 }
    link.change(0, key, from: nil, to: FleetVersion(daemon: 1, operation: 1), record: [1], id: 2)
    link.servers.send(.read(key), id: 3, to: 0)
    try link.wait("changed") { $0.answers.count == 3 }
    guard case .changed(_, .some) = link.client.answers[2]?.body else {
      throw Failure("\(link.client.answers)")
    }
    // The read did not wait for the replicas.
    #expect(link.client.order == [1, 3, 2])
  }

  @Test func manyRecordsAreLoadedInPieces() throws {
    let redis = try RedisServer()
    let link = try Link(redis)
    try link.wait("connected") { $0.connected.count == 4 }
    for partition in 0..<4 { link.open(partition, new: epoch, id: UInt64(partition + 1)) }
    try link.wait("opened") { $0.answers.count == 4 }
    let keys = (0..<3_000).map { FleetKey(.timer, Array("key\($0)".utf8)) }
    // On a machine that stalls, the connection may be lost, and what was sent is sent again.
    var (left, id) = (Array(keys.indices), UInt64(100))
    while !left.isEmpty {
      let first = id
      for index in left {
        let version = FleetVersion(daemon: 1, operation: UInt64(index))
        link.change(index % 4, keys[index], from: nil, to: version, record: [1], id: id)
        id += 1
      }
      var hasTurned = false
      try link.wait("changed") { client in
        defer { hasTurned = true }
        return hasTurned && (first..<id).allSatisfy { client.answers[$0] != nil }
      }
      left = zip(left, first..<id).filter { _, id in
        if case .failed = link.client.answers[id]?.body { true } else { false }
      }.map(\.0)
    }
    var connected = 0
    try link.wait("loaded") {
      // On a machine that stalls, the connection may be lost, and the loads with it.
      if $0.connected.count > connected {
        connected = $0.connected.count
        for partition in [0, 1, 3] { link.servers.load(partition, only: nil) }
      }
      return Set($0.loaded).count == 3
    }
    #expect(Set(link.client.loaded) == [0, 1, 3])
    let expected = keys.enumerated().filter { $0.offset % 4 != 2 }.map(\.element)
    #expect(Set(link.client.records.map(\.0)) == Set(expected))
  }
}

private struct Failure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// An event loop, a link that runs on it, and the client that the link reports to.
private final class Link {
  let loop: EventLoop
  let servers: FleetServers
  let client = Client()

  convenience init(
    _ redis: RedisServer, _ change: (inout FleetSettings) -> Void = { _ in }
  ) throws {
    try self.init(port: redis.port, change)
  }

  init(port: Int, _ change: (inout FleetSettings) -> Void = { _ in }) throws {
    var settings = FleetSettings()
    settings.nodes = [FleetSettings.Node(host: "localhost", port: port)]
    settings.partitions = 4
    settings.replicas = .count(0)
    change(&settings)
    loop = try EventLoop()
    servers = try FleetServers(
      settings, loop, Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    ) {}
    servers.client = client
    servers.start()
  }

  func wait(_ what: String, _ isDone: (Client) -> Bool) throws {
    let end = ContinuousClock.now + .seconds(30)
    while !isDone(client) {
      guard ContinuousClock.now < end else {
        throw Failure("not \(what): \(servers.figures(forAdmin: true))")
      }
      servers.flush()
      loop.schedule(inMilliseconds: 100) {}
      loop.runOnce(waits: true)
    }
  }

  func open(
    _ partition: Int, new: [UInt8], id: UInt64 = 1, known: [UInt8] = [], position: Int64 = 0,
    keeping: FleetKeeping? = nil, lease: UInt32? = nil, beginning: FleetBeginning? = .initialize
  ) {
    var opening = FleetOpening(known: known, new: new, refusal: 1_000_000, position: position)
    opening.beginning = beginning
    opening.keeping = keeping
    opening.lease = lease
    servers.send(.open(opening), id: id, to: partition)
  }

  func change(
    _ partition: Int, _ key: FleetKey, from expected: FleetVersion?, to version: FleetVersion,
    record: [UInt8]?, gone: UInt32? = nil, id: UInt64
  ) {
    var change = FleetChange(
      epoch: Array("epoch-of-a-test!".utf8), expected: expected, version: version,
      record: record, events: [9], earliest: 0, latest: .max / 4)
    change.gone = gone
    servers.send(.change(key, change), id: id, to: partition)
  }
}

private final class Client: FleetLinkClient {
  var connected: [Int] = []
  var disconnected: [Int] = []
  var answers: [UInt64: FleetAnswer] = [:]
  var order: [UInt64] = []
  var entries: [FleetEntry] = []
  var records: [(FleetKey, FleetRecord)] = []
  var loaded: [Int] = []
  var unreadable: [FleetKey] = []
  var problems: [String] = []

  func connected(_ partitions: [Int], at boot: Int64) { connected += partitions }
  func disconnected(_ partitions: [Int]) { disconnected += partitions }
  func cannotConnect(_ partitions: [Int], _ problem: String) { problems.append(problem) }
  func receive(_ answer: FleetAnswer, to id: UInt64, at boot: Int64) {
    if answers.updateValue(answer, forKey: id) != nil { Issue.record("\(id) is answered twice") }
    order.append(id)
  }
  var maximumEntries = 0
  func receive(_ entries: [FleetEntry], of partition: Int) {
    self.entries += entries
    maximumEntries = max(maximumEntries, entries.count)
  }
  func load(_ records: [(FleetKey, FleetRecord)], of partition: Int) { self.records += records }
  func noteUnreadable(_ key: FleetKey, of partition: Int) { unreadable.append(key) }
  func endLoading(_ partition: Int) { loaded.append(partition) }
}

/// Answers whatever comes with the same bytes.
private final class StandIn {
  let port: Int
  private let listener: Int32

  init(answer: String) throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    self.listener = listener
    port = RedisServer.bindToFreePort(listener)
    listen(listener, 8)
    Thread.detachNewThread {
      while true {
        let client = accept(listener, nil, nil)
        guard client >= 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 4_096)
        _ = recv(client, &buffer, buffer.count, 0)
        let bytes = Array(answer.utf8)
        _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        close(client)
      }
    }
  }

  deinit { shutdown(listener, Int32(SHUT_RDWR)) }
}

/// Signs certificates, by the openssl program.
private final class Authority {
  static let program = "/usr/bin/openssl"
  private let directory: String
  var file: String { directory + "/ca.pem" }

  init() throws {
    directory = NSTemporaryDirectory() + "countdownd-ca-\(UUID())"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    try openssl(
      "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority "
        + "-keyout ca.key -out ca.pem")
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  /// The files of a certificate and of its key.
  func certificate(for name: String) throws -> (certificate: String, key: String) {
    try openssl(
      "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(name) "
        + "-addext subjectAltName=DNS:\(name) -keyout \(name).key -out \(name).csr")
    try openssl(
      "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        + "-copy_extensions copyall -out \(name).pem")
    return ("\(directory)/\(name).pem", "\(directory)/\(name).key")
  }

  private func openssl(_ arguments: String) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: Self.program)
    process.arguments = arguments.split(separator: " ").map(String.init)
    process.currentDirectoryURL = URL(fileURLWithPath: directory)
    process.standardError = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw Failure("openssl \(arguments)") }
  }
}

/// A redis-server of its own, which ends with it.
private final class RedisServer {
  private static let program = "/usr/bin/redis-server"
  static var isInstalled: Bool { access(program, X_OK) == 0 }

  let port: Int
  let directory: String
  private let process = Process()

  convenience init(_ options: String...) throws { try self.init(options) }
  convenience init(_ options: [String]) throws { try self.init(port: Self.freePort(), options) }

  static func encrypted(
    _ own: (certificate: String, key: String), _ authority: Authority
  ) throws -> RedisServer {
    let port = freePort()
    return try RedisServer(
      port: port,
      [
        "--port", "0", "--tls-port", "\(port)", "--tls-cert-file", own.certificate,
        "--tls-key-file", own.key, "--tls-ca-cert-file", authority.file, "--tls-auth-clients", "no",
      ])
  }

  init(port: Int, _ options: [String] = []) throws {
    self.port = port
    directory = NSTemporaryDirectory() + "countdownd-redis-\(UUID())"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    process.executableURL = URL(fileURLWithPath: Self.program)
    process.arguments =
      ["--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--dir", directory] + options
    process.standardOutput = FileHandle.nullDevice
    try process.run()
  }

  deinit {
    end()
    try? FileManager.default.removeItem(atPath: directory)
  }

  func end() {
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
  }

  func pause() { kill(process.processIdentifier, SIGSTOP) }

  func command(_ words: String...) throws { try command(words) }

  func command(_ words: [String]) throws {
    let client = Process()
    client.executableURL = URL(fileURLWithPath: "/usr/bin/redis-cli")
    client.arguments = ["-p", "\(port)"] + words
    client.standardOutput = FileHandle.nullDevice
    try client.run()
    client.waitUntilExit()
  }

  private static func freePort() -> Int {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    return bindToFreePort(descriptor)
  }

  static func bindToFreePort(_ descriptor: Int32) -> Int {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        _ = bind(descriptor, $0, length)
        _ = getsockname(descriptor, $0, &length)
      }
      return Int(UInt16(bigEndian: pointer.pointee.sin_port))
    }
  }
}
