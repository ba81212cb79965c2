extension PageEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> PageEntity {
    PageEntity(
      key: Array(key), machine: PageLoad(timeout: nil, at: .zero), generation: Generation(0),
      owner: .none, uid: 0, options: PageOptions(screen: [], grace: .zero, minimum: .zero))
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&generation)
    visitor.field("uid", &uid)
    visitor.owner(&owner)
    machine.fields(&visitor)
    visitor.choice("refresh", &options.refresh)
    visitor.interval("timeout", &options.timeout)
    visitor.field("screen", &options.screen)
    visitor.interval("grace", &options.grace)
    visitor.interval("minimum", &options.minimum)
    visitor.field("bound", &isBound)
    visitor.optional("lease", &lease, blank: .blank) { $0.ownerName(&$1) }
  }
}
