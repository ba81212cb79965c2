/// The `fleet:` section of the configuration: how daemons on several hosts share entities.
package struct FleetSettings: Equatable, Sendable {
  package enum Discovery: String, CaseIterable, Sendable { case single, sentinel, cluster }
  package enum Unreachable: String, CaseIterable, Sendable { case refuse, local }
  package enum Mirror: String, CaseIterable, Sendable { case all, used }
  package enum Durability: String, CaseIterable, Sendable { case memory, disk }

  /// Which replicas must have a change before it is confirmed.
  package enum Replicas: Equatable, Sendable {
    /// Each one that the primary has had within the grace, and at least one.
    case all
    case count(Int)
  }

  package enum Reads: String, CaseIterable, Sendable { case engine, local }

  /// A server: a host name or an address, and a port.
  package struct Node: Hashable, Sendable {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
      self.host = host
      self.port = port
    }

    /// `HOST:PORT`; an IPv6 address in brackets.
    package var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
  }

  package struct TLS: Equatable, Sendable {
    /// Whether connections to the servers are encrypted.
    package var isEnabled = false
    /// A file of trusted CA certificates, in PEM; nil: those of the system.
    package var authorities: String?
    /// Files of the client's certificate and key, in PEM; nil: none.
    package var certificate: String?
    package var key: String?

    package init() {}
  }

  /// Tells fleets on the same servers apart. 1 to 64 letters, digits, `-`, `_` or `.`.
  package var name = "default"
  /// Kinds whose entities the hosts share. All others stay local.
  package var kinds = Set(EntityKind.independent)
  /// The number of parts that the records are divided into: fixed for the life of a fleet.
  package var partitions = 16
  package var replicas = Replicas.all
  /// How long a replica that is missing still has to confirm changes.
  package var replicaGrace = Interval.seconds(10)
  /// Where the primary and its replicas must have a change before it is confirmed.
  package var durability = Durability.memory
  /// How long a command waits for the servers.
  package var timeout = Interval.milliseconds(250)
  package var unreachable = Unreachable.refuse
  package var reads = Reads.engine
  /// Which records this host has copies of.
  package var mirror = Mirror.all
  package var maximumClockSkew = Interval.milliseconds(500)

  package var nodes: [Node] = []
  package var discovery = Discovery.single
  /// The name of the servers in Sentinel.
  package var sentinelName = "mymaster"
  package var username: String?
  package var passwordFile: String?
  /// The user on the Sentinels, and the file of its password; nil: those of the servers.
  package var sentinelUsername: String?
  package var sentinelPasswordFile: String?
  package var tls = TLS()

  package init() {}

  /// What is unwise about these settings; nil if nothing is.
  package var warning: String? {
    guard discovery == .sentinel, passwordFile != nil, sentinelPasswordFile == nil else {
      return nil
    }
    return "fleet.password-file is sent to every Sentinel\(tls.isEnabled ? "" : ", in clear"); "
      + "set fleet.sentinel-password-file, to an empty file if they have no password"
  }

  /// Whether changes are confirmed by other means than the primary's answer.
  package var waitsForReplicas: Bool { replicas != .count(0) || durability == .disk }
}
