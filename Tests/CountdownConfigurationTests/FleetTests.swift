import Countdowns
import Testing

@testable import CountdownConfiguration

/// The `fleet:` section: its settings and its errors.
struct FleetTests {
  private func problems(_ yaml: String) -> [String] {
    do {
      _ = try Configuration(yaml: "fleet: {\(yaml)}", file: "f")
      return []
    } catch {
      return error.problems.map(\.description)
    }
  }

  @Test func everythingIsRead() throws {
    let configuration = try Configuration(
      yaml: """
        fleet:
          engine: redis
          name: shop
          nodes: [redis1:26379, "[::1]:26380", 10.0.0.7:1]
          discovery: sentinel
          sentinel-name: shop
          username: countdownd
          password-file: /run/password
          tls: {enabled: yes, authorities: /ca.pem, certificate: /own.pem, key: /own.key}
          kinds: [countdown, once]
          partitions: 64
          replicas: 2
          replica-grace: 7s
          durability: disk
          timeout: 300ms
          unreachable: local
          reads: local
          max-clock-skew: 1s
        """, file: "f")
    let fleet = configuration.fleet
    #expect(fleet.engine == .redis)
    #expect(fleet.settings.nodes.map(\.host) == ["redis1", "::1", "10.0.0.7"])
    #expect(fleet.settings.nodes.map(\.port) == [26_379, 26_380, 1])
    #expect(fleet.settings.discovery == .sentinel)
    #expect(fleet.settings.kinds == [.countdown, .once])
    #expect(fleet.settings.partitions == 64)
    #expect(fleet.settings.replicas == .count(2))
    #expect(fleet.settings.replicaGrace == .seconds(7))
    #expect(fleet.settings.durability == .disk)
    #expect(fleet.settings.unreachable == .local)
    #expect(fleet.settings.reads == .local)
    #expect(fleet.settings.timeout == .milliseconds(300))
    let shown = Dictionary(uniqueKeysWithValues: configuration.settings.map { ($0.name, $0.value) })
    #expect(shown["fleet.nodes"] == "redis1:26379,[::1]:26380,10.0.0.7:1")
    #expect(shown["fleet.kinds"] == "countdown,once")
    #expect(shown["fleet.tls.key"] == "/own.key")
  }

  @Test(arguments: [
    "redis1", "redis1:0", "redis1:65536", ":1", "a b:1", "[::1:1", "::1:6379", "a:01",
  ])
  func aNodeThatIsNoneIsRefused(node: String) {
    let found = problems("engine: redis, nodes: ['\(node)']")
    #expect(found.first?.hasPrefix("f:1: fleet.nodes[0]: ") == true, "\(node): \(found)")
  }

  @Test(arguments: [
    ("partitions: 0", "fleet.partitions"), ("partitions: 1025", "fleet.partitions"),
    ("replicas: 6", "fleet.replicas"), ("replicas: most", "fleet.replicas"),
    ("replica-grace: 999ms", "fleet.replica-grace"), ("timeout: 9ms", "fleet.timeout"),
    ("kinds: [hud]", "fleet.kinds[0]"), ("kinds: []", "fleet.kinds"), ("name: a b", "fleet.name"),
    ("discovery: dns", "fleet.discovery"), ("password-file: x", "fleet.password-file"),
    ("sentinal-name: x", "fleet.sentinal-name"),
  ])
  func aWrongValueIsReportedWithItsLine(yaml: String, setting: String) {
    #expect(problems(yaml).first?.hasPrefix("f:1: \(setting): ") == true)
  }

  @Test(arguments: [
    ("replicas: 0", "f: fleet.engine: none"),
    ("engine: redis", "f: fleet.nodes: empty"),
    ("engine: redis, nodes: [a:1, b:1]", "f: fleet.nodes: more than one"),
    ("engine: redis, nodes: [a:1], tls: {key: /k}", "f: fleet.tls.enabled: no"),
    ("engine: redis, nodes: [a:1], tls: {enabled: yes, key: /k}", "f: fleet.tls.key: "),
    ("engine: redis, nodes: [a:1], username: u", "f: fleet.password-file: empty"),
    (
      "engine: redis, nodes: [a:1], discovery: sentinel, sentinel-username: u",
      "f: fleet.sentinel-password-file: empty"
    ),
    (
      "engine: redis, nodes: [a:1], sentinel-password-file: /p",
      "f: fleet.sentinel-password-file: set"
    ),
  ])
  func settingsThatDoNotBelongTogetherAreRefused(yaml: String, problem: String) {
    #expect(problems(yaml).first?.hasPrefix(problem) == true, "\(problems(yaml))")
  }

  @Test(arguments: [
    ("password-file: /p", true), ("password-file: /p, sentinel-password-file: /s", false),
    ("sentinel-name: x", false),
  ])
  func aPasswordThatSentinelsReceiveIsWarnedOf(yaml: String, isUnwise: Bool) throws {
    let configuration = try Configuration(
      yaml: "fleet: {engine: redis, nodes: [a:1], discovery: sentinel, \(yaml)}", file: "f")
    #expect((configuration.fleet.settings.warning != nil) == isUnwise)
  }

  @Test func aReloadKeepsTheFleet() throws {
    let old = try Configuration(yaml: "fleet: {engine: redis, nodes: [a:1]}", file: "f")
    var new = try Configuration(yaml: "fleet: {engine: redis, nodes: [b:1]}", file: "f")
    #expect(new.keepWhatNeedsRestart(from: old) == ["fleet.nodes"])
    #expect(new == old)
  }
}
