import Countdowns

/// Checks the events of scopes, stacks and pages, no matter when the engine sends them.
struct InteractionEvents {
  private struct Opened {
    let name: String
    var children: [Generation] = []
    /// The timers and guards that the scope owns.
    var owned: Set<Generation> = []
  }

  private enum Presence { case appearing, visible, disappearing }

  private var opened: [Generation: Opened] = [:]
  private(set) var closed: Set<Generation> = []
  /// The owning scope of each timer and guard.
  private var owners: [Generation: Generation?] = [:]
  private var ended: Set<Generation> = []
  private var presence: [String: [String: Presence]] = [:]
  /// The handlers that received client events since this was last emptied.
  var emissions: [(scope: String, connection: UInt64)] = []

  mutating func note(scope: Generation, _ name: String, below parent: Generation?) {
    opened[scope] = Opened(name: name)
    if let parent { opened[parent]!.children.append(scope) }
  }

  /// Notes a new timer or guard, or its new owner.
  mutating func note(owned: Generation, by scope: Generation?) {
    if let before = owners[owned] ?? nil { opened[before]!.owned.remove(owned) }
    owners[owned] = .some(scope)
    if let scope { opened[scope]!.owned.insert(owned) }
  }

  /// Returns whether a scope of that name may still be closing, though commands cannot see it.
  func isBeingClosed(_ name: String) -> Bool {
    opened.contains { $0.value.name == name && !closed.contains($0.key) }
  }

  /// Returns what is wrong with an event, given the scopes that were open before and after its
  /// cause; nil if nothing.
  mutating func problem(
    _ event: SentEvent, openBefore: Set<Generation>, openAfter: Set<Generation>
  ) -> String? {
    let key = String(decoding: event.key, as: UTF8.self)
    switch event.subject {
    case is ScopeView where event.name == .closed:
      return problem(closing: event.generation, openAfter)
    case is TimerView, is any GuardView:
      return problem(ofOwned: event, openBefore, openAfter)
    case is Emission:
      emissions.append((key, event.audience.subscribers[0]))
    case let view as StackView:
      guard let occurrence = view.occurrence else { return nil }
      let page = String(decoding: occurrence.page, as: UTF8.self)
      if event.name == .dismissed { return presence.removeValue(forKey: key).flatMap(left) }
      return problem(event.name, page, in: &presence[key, default: [:]])
    default: break
    }
    return nil
  }

  private mutating func problem(
    closing scope: Generation, _ openAfter: Set<Generation>
  ) -> String? {
    guard let entry = opened[scope] else { return "a scope closes that was never opened" }
    if openAfter.contains(scope) { return "\(entry.name) closes, though nothing is over" }
    guard closed.insert(scope).inserted else { return "\(entry.name) closes twice" }
    if !entry.children.allSatisfy(closed.contains) { return "\(entry.name) closes before a child" }
    if !entry.owned.allSatisfy(ended.contains) {
      return "\(entry.name) closes before what it owns is over"
    }
    return nil
  }

  private mutating func problem(
    ofOwned event: SentEvent, _ openBefore: Set<Generation>, _ openAfter: Set<Generation>
  ) -> String? {
    switch event.name {
    case .fired, .expired, .cancelled, .dismissed: break
    default: return nil
    }
    guard ended.insert(event.generation).inserted else { return "a timer or guard is over twice" }
    guard let owner = owners[event.generation] ?? nil else {
      return event.reason == .ownerGone ? "what is nobody's is cancelled" : nil
    }
    let isByTime = event.name == .fired || event.name == .expired || event.reason == .expired
    if isByTime, !openBefore.contains(owner) { return "a timer or guard fires for nobody" }
    if event.reason == .ownerGone, openAfter.contains(owner) {
      return "a timer or guard is cancelled whose owner is there"
    }
    return nil
  }

  /// Checks that appearing and disappearing come in pairs.
  private func problem(
    _ name: Event.Name, _ page: String, in pages: inout [String: Presence]
  ) -> String? {
    let before = pages[page]
    switch (name, before) {
    case (.willAppear, nil), (.willAppear, .disappearing): pages[page] = .appearing
    case (.didAppear, .appearing): pages[page] = .visible
    case (.willDisappear, .visible), (.willDisappear, .appearing): pages[page] = .disappearing
    case (.didDisappear, .disappearing): pages[page] = nil
    case (.willAppear, _), (.didAppear, _), (.willDisappear, _), (.didDisappear, _):
      return "\(page): \(name.text) while it is \(before.map { "\($0)" } ?? "hidden")"
    default: break
    }
    return nil
  }

  private func left(_ pages: [String: Presence]) -> String? {
    pages.isEmpty ? nil : "a stack is dismissed, and \(pages.keys.sorted()) did not disappear"
  }

  /// Returns what is wrong once nothing is due and everything is cleaned up; nil if nothing.
  func problem(whenFinished model: InteractionModel) -> String? {
    let open = model.openGenerations
    if let scope = opened.first(where: { open.contains($0.key) == closed.contains($0.key) }) {
      return "\(scope.value.name) is \(open.contains(scope.key) ? "open" : "over"), "
        + "which its events do not say"
    }
    let running = Set(
      model.timers.values.map(\.generation) + model.guards.values.map(\.generation))
    if owners.keys.contains(where: { running.contains($0) == ended.contains($0) }) {
      return "the events of a timer or guard do not say whether it is over"
    }
    for (name, stack) in model.stacks {
      let top = stack.pages[stack.pages.count - 1].name
      var expected: [String: Presence] = [top: .visible]
      if let transition = stack.transition {
        let below = stack.pages[stack.pages.count - 2].name
        expected =
          transition.adds
          ? [top: .appearing, below: .disappearing] : [top: .disappearing, below: .appearing]
      }
      if presence[name] != expected {
        return "\(name): events say \(presence[name] ?? [:]), which must be \(expected)"
      }
    }
    return nil
  }
}
