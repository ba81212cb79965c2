import Countdowns
import Testing

/// A navigation stack on a virtual clock:
///
///     let stack = NavigationTimeline("a")
///     stack.push("b")
///     stack.at(100).swipe()
///     stack.at(200).finish()
///     stack.expect("0 willAppear a moving", …)
///
/// Times are in milliseconds.
final class NavigationTimeline {
  private(set) var machine: NavigationStack! = nil
  private(set) var now = Instant(microseconds: 0)
  private var lines: [String] = []
  private var lastGeneration: Int64 = 0

  init(_ root: String, bar: NavigationStack.Bar? = .shown) {
    machine = NavigationStack(page(root, bar: bar)) { self.record($0) }
  }

  @discardableResult
  func at(_ milliseconds: Int64) -> NavigationTimeline {
    let moment = Instant(microseconds: milliseconds * 1_000)
    if let next = machine.nextExpiry, next <= moment {
      now = next
      machine.expire(at: now) { record($0) }
    }
    now = moment
    return self
  }

  /// Moves the clock in one jump, then expires the stack once.
  func late(at milliseconds: Int64) {
    now = Instant(microseconds: milliseconds * 1_000)
    machine.expire(at: now) { record($0) }
  }

  private func page(
    _ name: String, edge: Double = 0, pops: Bool = true, bar: NavigationStack.Bar? = .shown,
    style: NavigationStack.Style = .pushed
  ) -> NavigationStack.Page {
    lastGeneration += 1
    return NavigationStack.Page(
      scope: OwnerName(
        key: Array(name.utf8), index: UInt32(lastGeneration),
        generation: Generation(lastGeneration)), edge: edge, pops: pops, bar: bar, style: style)
  }

  @discardableResult
  func push(
    _ name: String, edge: Double = 0, pops: Bool = true, bar: NavigationStack.Bar? = .shown,
    style: NavigationStack.Style = .pushed, _ pace: NavigationStack.Pace = .atOnce
  ) -> Reason? {
    machine.push(
      page(name, edge: edge, pops: pops, bar: bar, style: style), pace, at: now
    ) { record($0) }
  }

  @discardableResult
  func set(
    _ name: String, edge: Double? = nil, pops: Bool? = nil, bar: NavigationStack.Bar?? = nil
  ) -> Reason? {
    var change = NavigationStack.Change()
    (change.edge, change.pops, change.bar) = (edge, pops, bar)
    return machine.set(Array(name.utf8), change) { record($0) }
  }

  @discardableResult
  func pop(_ pace: NavigationStack.Pace = .atOnce) -> Reason? {
    machine.pop(pace, at: now) { record($0) }
  }
  @discardableResult
  func root() -> Reason? { machine.popToRoot { record($0) } }
  func dismiss() { machine.dismiss { record($0) } }

  @discardableResult
  func swipe(x: Double = 5, dx: Double = 1, timeout: Int64 = 10_000) -> Reason? {
    machine.swipe(x: x, dx: dx, timeout: .milliseconds(timeout), at: now) { record($0) }
  }

  @discardableResult
  func progress(_ fraction: Double) -> Reason? {
    machine.progress(fraction, at: now) { record($0) }
  }

  @discardableResult
  func finish() -> Reason? { machine.finish { record($0) } }
  @discardableResult
  func cancel() -> Reason? { machine.cancel { record($0) } }

  /// Removes these pages, as if their scopes had closed.
  func close(_ names: String...) {
    let places = machine.pages.indices.filter { names.contains(text(machine.pages[$0].scope.key)) }
    machine.remove(Set(places)) { record($0) }
  }

  var pages: [String] { machine.pages.map { text($0.scope.key) } }

  private func text(_ key: [UInt8]) -> String { String(decoding: key, as: UTF8.self) }

  private func record(_ occurrence: NavigationStack.Occurrence) {
    var words = ["\(now.microseconds / 1_000)", "\(occurrence.event)", text(occurrence.page)]
    if occurrence.isMoving { words.append("moving") }
    if occurrence.style == .presented { words.append("presented") }
    if occurrence.changesBar { words.append("bar \(occurrence.bar)") }
    if let due = occurrence.due { words.append("due \(due.microseconds / 1_000)") }
    lines.append(words.joined(separator: " "))
  }

  /// Expects exactly these lines since the last call.
  func expect(_ expected: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    let happened = lines
    lines = []
    #expect(happened == expected, sourceLocation: sourceLocation)
  }

  func forget() { lines = [] }
}
