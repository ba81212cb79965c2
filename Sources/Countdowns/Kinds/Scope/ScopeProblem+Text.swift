import Wire

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
      return "ERR a scope closes with its PARENT anyway; OWNER scope:ID is for one without"
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
    quoted(bytes.span)
  }
}
