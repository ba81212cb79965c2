import Countdowns
import Testing

/// A HUD on a virtual clock, so that a test reads like a history:
///
///     let hud = HUDTimeline()
///     hud.at(0).show(grace: 500)
///     hud.at(300).dismiss()
///     hud.expect("300 did-disappear never-shown")
///
/// All times are in milliseconds. `at` moves the clock event by event, like a driver that is never
/// late; `late(at:)` moves it in one jump, as after a suspend.
final class HUDTimeline {
  private(set) var machine: Presentation?
  private(set) var now = Instant(microseconds: 0)
  private(set) var generation = Generation(0)
  private var entries: [(at: Instant, occurrence: Presentation.Occurrence)] = []

  // MARK: Time

  @discardableResult
  func at(_ milliseconds: Int64) -> HUDTimeline {
    let moment = Instant(microseconds: milliseconds * 1_000)
    precondition(moment >= now, "time does not go back")
    while let next = machine?.nextExpiry, next <= moment {
      now = max(now, next)
      expire()
    }
    now = moment
    return self
  }

  @discardableResult
  func late(at milliseconds: Int64) -> HUDTimeline {
    now = Instant(microseconds: milliseconds * 1_000)
    expire()
    return self
  }

  private func expire() {
    let now = now
    machine?.expire(at: now) { record($0) }
  }

  // MARK: Inputs

  func show(
    _ kind: Presentation.Kind = .loading, _ status: String? = nil, grace: Int64 = 0,
    min: Int64 = 0, max: Int64? = nil, fade: Int64 = 150,
    from: Presentation.MinimumFrom = .visible, early: Presentation.Early = .skip,
    mask: Presentation.Mask = .none, readFor: Int64 = 5_000, request path: String? = nil,
    by owner: Owner = .none
  ) {
    generation.value += 1
    var request = Presentation.Request(
      kind: kind, status: status.map { Array($0.utf8) }, grace: .milliseconds(grace),
      minimum: .milliseconds(min), maximum: max.map { .milliseconds($0) },
      fadeIn: .milliseconds(fade), fadeOut: .milliseconds(fade), minimumFrom: from, early: early,
      mask: mask, messageMinimum: .milliseconds(readFor))
    request.path = path.map { Array($0.utf8) }
    if machine == nil || machine?.isHidden == true {
      machine = Presentation(request, generation: generation, owner: owner, at: now) { record($0) }
    } else {
      machine?.show(request, generation: generation, owner: owner, at: now) { record($0) }
    }
  }

  func dismiss(delay: Int64? = nil) {
    machine?.dismiss(delay: delay.map { .milliseconds($0) }, at: now) { record($0) }
  }

  func pop(by owner: Owner = .none, _ generation: Int64? = nil, request: String? = nil) {
    let pop = Presentation.Pop(
      by: owner, generation: generation.map(Generation.init), path: request.map { Array($0.utf8) })
    machine?.pop(pop, at: now) { record($0) }
  }

  func gone(_ owners: Owner...) { machine?.ownersGone(Set(owners), at: now) { record($0) } }
  func tap(inside: Bool = false) { machine?.tap(inside: inside, at: now) { record($0) } }
  func pause() { machine?.pause(at: now) { record($0) } }
  func resume() { machine?.resume(at: now) { record($0) } }

  func update(hold generation: Int64? = nil, fraction: Double? = nil, _ status: String? = nil) {
    let status = status.map { Array($0.utf8) }
    machine?.update(
      generation.map(Generation.init), fraction: fraction, status: status, at: now
    ) { record($0) }
  }

  private func record(_ occurrence: Presentation.Occurrence) {
    entries.append((now, occurrence))
  }

  // MARK: Outcome

  var holds: Int { machine?.holdCount ?? 0 }
  var mask: Presentation.Mask? { machine?.mask }
  var status: String? {
    machine?.shown.request.status.map { String(decoding: $0, as: UTF8.self) }
  }
  var remaining: Int64? { machine?.remainingTime(at: now)?.millisecondsRoundedUp }

  /// Expects exactly these lines since the last call. Lines name generations once there are two.
  func expect(_ lines: String..., sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(takeLines() == lines, sourceLocation: sourceLocation)
  }

  func takeLines() -> [String] {
    defer { entries = [] }
    return entries.map { line(at: $0.at, $0.occurrence) }
  }

  private func line(at moment: Instant, _ occurrence: Presentation.Occurrence) -> String {
    var words = ["\(moment.microseconds / 1_000)", occurrence.event.name]
    if generation.value > 1 { words.append("#\(occurrence.presentation.generation.value)") }
    if let superseded = occurrence.superseded { words.append("over #\(superseded.value)") }
    if let end = occurrence.presentation.end { words.append(end.rawValue) }
    return words.joined(separator: " ")
  }
}

extension Presentation.Event {
  var name: String {
    switch self {
    case .willAppear: "will-appear"
    case .didAppear: "did-appear"
    case .updated: "updated"
    case .touched: "touched"
    case .paused: "paused"
    case .resumed: "resumed"
    case .willDisappear: "will-disappear"
    case .didDisappear: "did-disappear"
    }
  }
}
