extension StackEntity: EntityState {
  package static func blank(_ key: Span<UInt8>) -> StackEntity {
    StackEntity(key: Array(key), machine: .blank, generation: Generation(0), uid: 0)
  }

  package mutating func state<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.generation(&generation)
    visitor.field("uid", &uid)
    machine.fields(&visitor)
  }
}

extension NavigationStack.Page {
  static var blank: NavigationStack.Page {
    NavigationStack.Page(scope: .blank, edge: 0, pops: true, bar: nil)
  }

  fileprivate mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.ownerName(&scope)
    visitor.number("edge", &edge, in: 0...Double.greatestFiniteMagnitude)
    visitor.field("pops", &pops)
    visitor.optional("bar", &bar, blank: .shown) { $0.choice("bar", &$1) }
    visitor.choice("style", &style)
  }
}

extension NavigationStack.Transition {
  fileprivate mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.choice("transition", &kind)
    visitor.number("fraction", &fraction, in: 0...1)
    visitor.interval("timeout", &timeout)
    visitor.instant("until", &until)
  }
}

extension NavigationStack: Stored {
  package static var blank: NavigationStack { NavigationStack(.blank) { _ in } }

  package mutating func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.list("pages", &pages, blank: .blank) { $1.fields(&$0) }
    visitor.optional("transition", &transition, blank: Transition(kind: .push)) { $1.fields(&$0) }
    visitor.choice("bar", &bar)
    visitor.require(pages.count > (transition == nil ? 0 : 1))
  }
}
