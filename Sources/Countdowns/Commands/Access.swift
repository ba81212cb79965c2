/// Users and groups, by their numbers.
package struct Principals: Equatable, Sendable {
  package var users: Set<UInt32>
  package var groups: Set<UInt32>

  package init(users: Set<UInt32> = [], groups: Set<UInt32> = []) {
    self.users = users
    self.groups = groups
  }

  package var isEmpty: Bool { users.isEmpty && groups.isEmpty }

  func include(_ peer: Peer) -> Bool {
    users.contains(peer.uid) || peer.groups.contains(where: groups.contains)
  }
}

/// The process at the other end of a connection, as the kernel knew it when it connected.
package struct Peer: Equatable, Sendable {
  package var uid: UInt32
  /// Its primary and supplementary groups.
  package var groups: [UInt32]
  package var pid: Int32

  package init(uid: UInt32, groups: [UInt32] = [], pid: Int32 = 0) {
    self.uid = uid
    self.groups = groups
    self.pid = pid
  }
}

/// Who may use the daemon, and who may manage it. Root and the daemon's own user always may, as
/// they could bypass the rules anyway.
package struct AccessRules: Equatable, Sendable {
  /// Who may connect. If empty: everybody whom the permissions of the socket admit.
  package var connect: Principals
  package var admin: Principals
  /// Who may use which keys. If empty: everybody all.
  package var keys: [KeyRule]
  /// The user that the daemon runs as.
  package var daemonUser: UInt32

  package init(
    connect: Principals = Principals(), admin: Principals = Principals(), keys: [KeyRule] = [],
    daemonUser: UInt32 = 0
  ) {
    self.connect = connect
    self.admin = admin
    self.keys = keys
    self.daemonUser = daemonUser
  }

  /// The settings that can refuse.
  package enum Part: String, CaseIterable, Sendable {
    case connect = "access.connect"
    case admin = "access.admin"
    case keys = "access.rules"
  }

  /// Throws an error for the client if it may not connect.
  package func checkConnect(_ peer: Peer) throws(CommandError) {
    guard !connect.isEmpty, !isTrusted(peer), !connect.include(peer) else { return }
    throw CommandError(
      "NOPERM uid \(peer.uid) may not connect: access.connect in the configuration names neither "
        + "it nor any of its groups", by: .connect)
  }

  func checkAdmin(_ peer: Peer, for command: String) throws(CommandError) {
    guard !isAdmin(peer) else { return }
    let others = daemonUser == 0 ? "" : ", uid \(daemonUser) that the daemon runs as"
    throw CommandError(
      "NOPERM \(command) is for root\(others) and whom access.admin in the configuration names; "
        + "access.admin.users: [\(peer.uid)] would allow it to you", by: .admin)
  }

  package func isAdmin(_ peer: Peer) -> Bool { isTrusted(peer) || admin.include(peer) }

  private func isTrusted(_ peer: Peer) -> Bool { peer.uid == 0 || peer.uid == daemonUser }
}
