import Wire

/// A rule about keys: what some users, or all, may do with the entities of some keys.
package struct KeyRule: Equatable, Sendable {
  package enum Role: String, CaseIterable, Sendable {
    case readWrite = "read-write"
    case readOnly = "read-only"
  }

  /// What the operator calls it.
  package var name: String
  /// Empty: everybody.
  package var who: Principals
  package var kinds: KindSet
  /// The patterns of its keys, as in `Glob`.
  package var keys: [[UInt8]]
  package var role: Role

  package init(
    _ name: String, who: Principals = Principals(),
    kinds: some Sequence<EntityKind> = EntityKind.allCases, keys: [[UInt8]],
    role: Role = .readWrite
  ) {
    (self.name, self.who, self.kinds, self.keys) = (name, who, KindSet(kinds), keys)
    self.role = role
  }

  func matches(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool {
    kinds.contains(kind) && keys.contains { Glob.matches($0, key) }
  }
}

/// What the rules let the user of one connection do with keys. There is none without rules.
package final class Rights: Sendable {
  private let uid: UInt32
  let isAdmin: Bool
  /// The rules about this user.
  private let rules: [KeyRule]

  fileprivate init(uid: UInt32, isAdmin: Bool, _ rules: [KeyRule]) {
    (self.uid, self.isAdmin, self.rules) = (uid, isAdmin, rules)
  }

  /// Returns the name of what lets the user change an entity, or only read it; nil if nothing does.
  func permission(
    for kind: EntityKind, _ key: Span<UInt8>, isChange: Bool
  ) -> String? {
    if isAdmin { return "access.admin" }
    return rules.first { (!isChange || $0.role == .readWrite) && $0.matches(kind, key) }?.name
  }

  func mayRead(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool {
    isAdmin || rules.contains { $0.matches(kind, key) }
  }

  func mayRead(_ owner: Owner) -> Bool {
    guard let (kind, key) = owner.entity else { return true }
    return mayRead(kind, key.span)
  }

  /// The same; takes what the comparisons cost from a budget.
  func mayRead(_ kind: EntityKind, _ key: [UInt8], budget: inout Int) -> Bool {
    for rule in rules { for pattern in rule.keys { budget -= Glob.cost(pattern, key.count) } }
    return mayRead(kind, key.span)
  }

  fileprivate func refusal(
    _ command: String, _ kind: EntityKind, _ key: Span<UInt8>, isChange: Bool
  ) -> CommandError {
    let role = isChange ? "" : ", role: \(KeyRule.Role.readOnly.rawValue)"
    return CommandError(
      "NOPERM \(command): no rule of access.rules lets uid \(uid) \(isChange ? "change" : "read") "
        + "\(kind.name) '\(quoted(key))'; {users: [\(uid)], keys: [\"\(quoted(key))\"]\(role)} "
        + "would allow it", by: .keys)
  }
}

extension Rights? {
  /// Returns whether the entity that owns others may be read.
  @inline(__always)
  func mayRead(_ owner: Owner) -> Bool { self?.mayRead(owner) ?? true }

  /// Returns whether an entity may be read: always without rules.
  func mayRead(_ kind: EntityKind, _ key: Span<UInt8>) -> Bool { self?.mayRead(kind, key) ?? true }
}

/// A change of an entity that another user has made: what has allowed it.
package struct ForeignChange: Equatable, Sendable {
  package var command: String
  package var kind: EntityKind
  package var key: [UInt8]
  /// The user who has made the entity.
  package var maker: UInt32
  /// The name of the rule, or `access.admin`.
  package var permission: String
}

extension AccessRules {
  /// Returns the rights of a new connection; nil without rules: then everybody may do everything.
  package func rights(of peer: Peer) -> Rights? {
    guard !keys.isEmpty else { return nil }
    return Rights(
      uid: peer.uid, isAdmin: isAdmin(peer),
      keys.filter { $0.who.isEmpty || $0.who.include(peer) })
  }
}

extension Dispatcher {
  /// Refuses a command if the rules do not allow the session its key, or other keys among its
  /// arguments. Options and `uses` check theirs when they are read.
  @inline(never)
  func authorize(
    _ spec: CommandSpec, _ arguments: Arguments, for session: Session
  ) throws(CommandError) {
    guard let kind = spec.group.kind, spec.keyPosition > 0 else { return }
    try authorize(
      spec, kind, arguments[spec.keyPosition], isChange: !spec.flags.contains(.readOnly),
      for: session)
    for other in spec.otherKeys {
      let end = other.repeats ? spec.optionsStart?(arguments) : other.position + 1
      for index in other.position..<max(other.position, min(end ?? .max, arguments.count)) {
        try authorize(spec, other.kind, arguments[index], isChange: true, for: session)
      }
    }
  }

  /// Refuses a command about an entity that the rules do not allow the session. Reports a change of
  /// another user's entity to the host.
  @inline(never)
  func authorize(
    _ spec: CommandSpec, _ kind: EntityKind, _ key: Span<UInt8>, isChange: Bool,
    for session: Session
  ) throws(CommandError) {
    guard let rights = session.rights else { return }
    guard let permission = rights.permission(for: kind, key, isChange: isChange) else {
      throw rights.refusal(spec.fullName, kind, key, isChange: isChange)
    }
    // A command that MULTI queues is checked again when it runs.
    guard isChange, session.transaction == nil, let maker = engine.uid(of: kind, key),
      maker != session.client.uid
    else { return }
    let change = ForeignChange(
      command: spec.fullName, kind: kind, key: Array(key), maker: maker, permission: permission)
    host.note(.foreignChange(change, by: session.client))
  }
}

extension Call {
  /// Refuses the use of another entity than the command's own, if the rules do not allow it.
  func authorize(
    _ kind: EntityKind, _ key: Span<UInt8>, isChange: Bool = true
  ) throws(CommandError) {
    try dispatcher.authorize(spec, kind, key, isChange: isChange, for: session)
  }

  func authorize(_ keys: [(kind: EntityKind, key: [UInt8])]) throws(CommandError) {
    for (kind, key) in keys { try authorize(kind, key.span) }
  }
}

extension Engine {
  /// Returns the user who has made an entity; nil if there is none of that key.
  fileprivate func uid(of kind: EntityKind, _ key: Span<UInt8>) -> UInt32? {
    let store = store(of: kind)
    return store.find(key).map { store.uid($0) }
  }
}
