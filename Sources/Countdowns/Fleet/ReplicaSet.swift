/// The replicas that must have a change before it is confirmed, with `replicas: all`: each one that
/// the primary has had within the grace, so whichever is promoted has the change.
///
///     listed or attached ─► member ─► missing ── for the grace ─► overdue ─► forgotten
///                             ▲          │                          a majority has named the
///                             └──────────┘ attached again           primary since
///
/// The grace runs on this host's clock, from the moment at which a living primary was seen without
/// the replica: a primary that was paused for longer than the grace has perhaps been replaced. So
/// a replica is forgotten only after a majority (of the Sentinels, or of the cluster's primaries)
/// has named the primary, asked when the grace was over.
package struct ReplicaSet: Sendable {
  package typealias Node = FleetSettings.Node

  /// What a primary reports about its replicas (`INFO replication`).
  package struct Report: Equatable, Sendable {
    /// The end of the primary's replication stream, in bytes.
    package var offset: Int64
    package var replicas: [Node: Replica]

    package init(offset: Int64, replicas: [Node: Replica]) {
      self.offset = offset
      self.replicas = replicas
    }
  }

  package struct Replica: Equatable, Sendable {
    /// How much of the replication stream it has acknowledged, in bytes.
    package var offset: Int64
    /// The time since its last acknowledgement, in microseconds.
    package var silence: Int64
    /// Whether it has all data and follows the primary's changes.
    package var isOnline: Bool

    package init(offset: Int64, silence: Int64, isOnline: Bool) {
      self.offset = offset
      self.silence = silence
      self.isOnline = isOnline
    }
  }

  private let grace: Int64
  /// The members; and since when, on the boot clock, each one is missing.
  private var members: [Node: Int64?] = [:]
  /// Replicas that were forgotten. Listed ones return only after they were attached or down.
  private var forgotten: Set<Node> = []

  package init(grace: Interval) { self.grace = grace.microseconds }

  package func contains(_ node: Node) -> Bool { members[node] != nil }
  package var count: Int { members.count }
  package var present: Int { members.values.count { $0 == nil } }
  package var missing: [Node] {
    members.filter { $0.value != nil }.keys.sorted { $0.text < $1.text }
  }

  /// Returns the set of a replica that was promoted. Replicas that were missing stay so.
  package func promoted(_ primary: Node) -> ReplicaSet {
    var set = self
    set.members[primary] = nil
    set.forgotten = []
    return set
  }

  /// Adds replicas that Sentinels or cluster nodes list.
  ///
  /// - Parameters:
  ///   - listed: whether each one can be promoted at present.
  ///   - isFirst: whether nothing was known before: then even replicas that are down count.
  package mutating func add(_ listed: [Node: Bool], isFirst: Bool) {
    forgotten = forgotten.filter { listed[$0] == true }
    for (node, isUp) in listed where members[node] == nil && !forgotten.contains(node) {
      if isUp || isFirst { members[node] = .some(nil) }
    }
  }

  /// Notes which replicas a living primary has.
  package mutating func note(_ report: Report, at boot: Int64) {
    for (node, replica) in report.replicas where isPresent(replica) {
      members[node] = .some(nil)
      forgotten.remove(node)
    }
    for (node, since) in members where since == nil {
      if !(report.replicas[node].map(isPresent) ?? false) { members[node] = .some(boot) }
    }
  }

  private func isPresent(_ replica: Replica) -> Bool {
    replica.isOnline && replica.silence <= grace
  }

  /// When the grace of the missing replicas was over, on the boot clock; nil if none has to be
  /// forgotten, or nothing would be left.
  package func overdue(at boot: Int64) -> Int64? {
    guard present > 0 else { return nil }
    return members.values.compactMap { $0.map { $0 + grace } }.filter { $0 <= boot }.max()
  }

  /// Forgets the replicas whose grace was over at `asked`, when a majority was asked that named the
  /// primary.
  package mutating func forget(asked: Int64) {
    guard present > 0 else { return }
    for (node, since) in members {
      guard let since, since + grace <= asked else { continue }
      members[node] = nil
      forgotten.insert(node)
    }
  }

  /// Returns why a change at `offset` of the replication stream is not confirmed; nil if it is.
  package func problem(of offset: Int64, in report: Report) -> String? {
    guard !members.isEmpty else { return "the primary has no replica" }
    let lacking = members.keys.filter { node in
      guard let replica = report.replicas[node], replica.isOnline else { return true }
      return replica.offset < offset
    }.sorted { $0.text < $1.text }
    return lacking.first.map { "replica \($0.text) has not confirmed it" }
  }
}
