import Wire

extension ScopeView {
  static let fieldCount = 13

  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("key", bytes: key)
    writer.field("state", state.rawValue)
    writer.field("generation", generation.value)
    writeDetails(to: &writer)
  }

  func writeDetails(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("parent", bytes: parent)
    writer.field("depth", Int64(depth))
    writer.field("children", Int64(children))
    writer.field("owned", Int64(owned))
    writer.field("handlers", Int64(handlers))
    writer.field("ttl_ms", ttlMS)
    writer.field("remaining_ms", remainingMS)
    writer.field("deadline_unix_ms", deadlineUnixMS)
    writer.field("now_unix_ms", nowUnixMS)
    writer.field("owner", owner)
  }
}

extension Emission {
  func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.field("name", bytes: name)
    writer.field("target", bytes: target)
    writer.field("phase", isCaptured ? "capture" : "bubble" as StaticString)
    writer.field("payload", bytes: payload)
    writer.field("now_unix_ms", nowUnixMS)
  }
}

extension RESPEncoder {
  mutating func view(_ view: ScopeView) {
    map(ScopeView.fieldCount)
    view.write(to: &self)
  }
}

extension Call {
  func describe(_ problem: ScopeProblem, _ key: String) -> String {
    switch problem {
    case .noScope(let name):
      return "NOTFOUND no scope '\(quotedKey(name))'; SCOPE OPEN it first"
    case .otherParent(let parent):
      let place = parent.map { "below '\(quotedKey($0))'" } ?? "there without a parent"
      return "ERR '\(key)' is \(place), and a scope does not move; SCOPE CLOSE it first"
    case .parentBelow(let parent):
      return "ERR '\(quotedKey(parent))' is below '\(key)' or is it, so it cannot be its parent"
    case .otherOwner(let owner):
      return "ERR '\(key)' belongs to \(text(owner)), and does not change hands; "
        + "SCOPE CLOSE it first"
    case .parentAndOwner:
      return "ERR a scope goes with its PARENT as it is; OWNER scope:ID is for one without"
    case .isThere(let name):
      return "ERR there is a scope '\(quotedKey(name))' already; a page opens one of its own"
    case .isClosing(let name):
      return "ERR a scope '\(quotedKey(name))' is still being closed with what was below it; "
        + "its event 'closed' says when it is done"
    case .noLease:
      return "ERR '\(key)' has no lease; one that is opened with TTL has"
    case .cursorIsGone:
      return "ERR the scope that was next is closed; begin again without CURSOR"
    }
  }

  private func text(_ owner: Owner) -> String {
    switch owner {
    case .none: "nobody"
    case .connection(let id): "connection:\(id)"
    case .scope(let name): "scope:\(quotedKey(name.key))"
    case .page(let name): "page:\(quotedKey(name.key))"
    }
  }

  private func quotedKey(_ bytes: [UInt8]) -> String {
    bytes.withUnsafeBytes { quoted($0) }
  }
}
