import Wire

/// The reply to `HUD WHY`: why a HUD is in its state, what it waits for, and who holds it.
package struct HUDExplanation: FieldRecord, Equatable, Sendable {
  /// A reason why the HUD stays in its state.
  package enum Reason: String, CaseIterable, Sendable {
    case nothing, paused, grace
    case fadeIn = "fade-in"
    case delay, dismissed, min, message, max, held
    case fadeOut = "fade-out"
  }

  package var key: [UInt8]
  package var state = HUDView.State.hidden
  package var level: Level?
  package var generation: Generation?
  /// All fields below, in one sentence.
  package var why = "hidden: nothing is shown; SHOW shows a HUD"
  /// The reasons, the most important first.
  package var reasons = [Reason.nothing]
  package var mask: Presentation.Mask?
  /// The path of the request that the mask is for, if the mask blocks.
  package var blockedBy: [UInt8]?
  /// The owners of the holds, ordered by their oldest holds.
  package var holders: [String] = []

  /// Explains a screen, or a level of it, where nothing is shown.
  init(key: [UInt8]) { self.key = key }

  /// - Parameter rights: what the reader may do; nil for everything.
  init(
    _ key: [UInt8], _ level: Level, _ machine: Presentation, for rights: Rights?, at now: Instant
  ) {
    self.key = key
    self.level = level
    state = HUDView.State(machine.phase)
    generation = machine.generation
    mask = machine.mask
    if machine.mask != .none {
      blockedBy = machine.shows.last { $0.request.mask == machine.mask }?.request.path
    }
    holders = Self.holders(machine, for: rights)
    var clauses = Self.clauses(machine, at: machine.frozen(now))
    if !holders.isEmpty {
      clauses.append((.held, "held by \(holders.joined(separator: ", "))"))
    }
    reasons = clauses.map(\.reason)
    var texts = clauses.map(\.text)
    if machine.mask != .none {
      let request = blockedBy.map { " for \(Self.text($0))" }
      texts.append("mask \(machine.mask.rawValue)\(request ?? "")")
    }
    why = "\(state.rawValue): \(texts.joined(separator: "; "))"
  }

  /// Returns what the HUD waits for, the most important first; `now` is frozen while it is paused.
  private static func clauses(
    _ machine: Presentation, at now: Instant
  ) -> [(reason: Reason, text: String)] {
    var clauses: [(Reason, String)] = []
    func left(until moment: Instant) -> String { Swift.max(moment - now, .zero).humanText }

    if machine.isPaused { clauses.append((.paused, "paused until RESUME")) }
    switch machine.phase {
    case .waiting: clauses.append((.grace, "\(left(until: machine.graceEnd)) of GRACE left"))
    case .appearing(_, let until):
      clauses.append((.fadeIn, "\(left(until: until)) of FADEIN left"))
    case .visible: break
    case .disappearing(let until):
      let end = machine.end.map { ", \($0.rawValue)" } ?? ""
      return clauses + [(.fadeOut, "\(left(until: until)) of FADEOUT left\(end)")]
    case .hidden: break
    }

    var dismissedAt = now
    switch machine.dismissal {
    case .delayed(let until):
      dismissedAt = until
      clauses.append((.delay, "dismissed in \(left(until: until))"))
    case .held(let since, let end):
      dismissedAt = since
      clauses.append((.dismissed, end == .dismissed ? "dismissed" : "dismissed as \(end.rawValue)"))
    case nil: break
    }
    // MIN delays a dismissal, or would delay one now.
    let release = machine.release(dismissedAt: dismissedAt)
    if machine.phase != .waiting, release > Swift.max(dismissedAt, now) {
      let clause = (Reason.min, "\(left(until: release)) of MIN left")
      // MIN comes first: it explains why a dismissed HUD is still shown.
      if clauses.last?.0 == .dismissed {
        clauses.insert(clause, at: clauses.count - 1)
      } else {
        clauses.append(clause)
      }
    }
    if machine.phase == .visible, let limit = machine.lastLimit {
      let isMessage = machine.shown.request.kind.isMessage
      clauses.append(
        isMessage
          ? (.message, "\(left(until: limit)) left to read it")
          : (.max, "\(left(until: limit)) of MAX left"))
    }
    return clauses
  }

  /// Returns the owners of the holds with their hold counts, such as `connection 5 (2)`.
  private static func holders(_ machine: Presentation, for rights: Rights?) -> [String] {
    var counts: [(owner: Owner, count: Int)] = []
    for hold in machine.holds {
      if let index = counts.firstIndex(where: { $0.owner == hold.owner }) {
        counts[index].count += 1
      } else {
        counts.append((hold.owner, 1))
      }
    }
    return counts.map { owner, count in
      let name =
        switch owner {
        case .none: "no owner"
        case .connection(let id): "connection \(id)"
        case .scope where !rights.mayRead(owner): "a scope"
        case .page where !rights.mayRead(owner): "a page"
        case .scope(let scope): "scope:\(text(scope.key))"
        case .page(let page): "page:\(text(page.key))"
        }
      return count == 1 ? name : "\(name) (\(count))"
    }
  }

  private static func text(_ bytes: [UInt8]) -> String {
    String(decoding: bytes, as: UTF8.self).printable
  }

  // MARK: The reply

  package static var blank: HUDExplanation { HUDExplanation(key: []) }

  package func write(to writer: inout some FieldWriter & ~Copyable) {
    writer.key(key, "The screen.")
    writer.choice("state", state, "The state.")
    writer.field("why", why, .text(), "One sentence: the state, and what it waits for.")
    writer.field("reasons", list: reasons.map(\.rawValue), "What it waits for, as words.")
    writer.field("holders", list: holders, "Who holds it.")
    writer.choice("mask", mask, "The mask; null if hidden.")
    writer.field(
      "blocked_by", bytes: blockedBy, .text().orNull, "The request that blocks the screen.")
    writer.choice("level", level, "The level; null if hidden.")
    writer.field(
      "generation", generation?.value, .generation.orNull, "The fencing token; null if hidden.")
  }
}

extension Engine {
  /// - Parameter rights: what the reader may do; nil for everything.
  func explainHUD(
    _ screen: Span<UInt8>, _ level: Level?, for rights: Rights?, at now: Moment
  ) -> HUDExplanation {
    guard let index = current(HUDKind.self, screen, at: now),
      let position = huds[index].index(of: level)
    else { return HUDExplanation(key: Array(screen)) }
    let (level, machine) = huds[index].presentations[position]
    return HUDExplanation(huds[index].key, level, machine, for: rights, at: now.boot)
  }
}
