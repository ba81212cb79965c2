import Wire

extension ScopeProblem {
  func text(about key: String) -> String {
    switch self {
    case .noScope(let name):
      return "NOTFOUND no scope '\(quotedKey(name))'; SCOPE OPEN it first"
    case .otherParent(let parent):
      let place = parent.map { "below '\(quotedKey($0))'" } ?? "at the top"
      return "ERR '\(key)' is \(place), and a scope cannot move; SCOPE CLOSE it first"
    case .parentBelow(let parent):
      return "ERR '\(quotedKey(parent))' is below '\(key)' or is it, so it cannot be its parent"
    case .otherOwner(let owner):
      return "ERR '\(key)' has \(text(owner)), which cannot change; "
        + "SCOPE CLOSE it first"
    case .parentAndOwner:
      return "ERR a scope closes with its PARENT anyway; leave out PARENT or OWNER scope:ID"
    case .exists(let name):
      return "ERR scope '\(quotedKey(name))' already exists; a page opens its own"
    case .pageExists(let name):
      return "ERR page '\(quotedKey(name))' already exists; PAGE CLOSE it, or push without PAGE"
    case .isClosing(let name):
      return "ERR scope '\(quotedKey(name))' is still being closed with everything below it; "
        + "try again after its event 'closed'"
    case .noLease:
      return "ERR '\(key)' has no lease; SCOPE OPEN with TTL gives it one"
    case .cursorIsGone:
      return "ERR the next scope has closed; start again without CURSOR"
    }
  }

  private func text(_ owner: Owner) -> String {
    switch owner {
    case .none: "no owner"
    case .connection(let id): "owner connection:\(id)"
    case .scope(let name): "owner scope:\(quotedKey(name.key))"
    case .page(let name): "owner page:\(quotedKey(name.key))"
    }
  }

  private func quotedKey(_ bytes: [UInt8]) -> String {
    quoted(bytes.span)
  }
}
