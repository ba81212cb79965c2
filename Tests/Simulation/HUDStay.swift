import Countdowns

/// A naive model of what one level of a screen shows: a list of wishes, a list of moments, and
/// arithmetic on them.
///
/// All moments are on the stay's own clock, which stops while it is paused. Past moments are those
/// at which a step was noticed; the next one follows from them and from the wishes.
struct HUDStay {
  /// What one SHOW asked for.
  struct Wish {
    var request: Presentation.Request
    let generation: Generation
    let owner: Owner
    var fraction: Double?
    /// From when MAX counts, in microseconds.
    var since: Int64

    var limit: Int64? { request.longest.map { since + $0.microseconds } }
  }

  /// The next step of a stay.
  enum Step {
    case appears, appearsEarly, isSeen
    case loses(Int)
    case goes(Presentation.End)
    case isGone, isNeverShown
  }

  let level: Level
  var generation: Generation
  /// The wishes, oldest first; the last one is shown.
  var wishes: [Wish]
  /// Whether the wishes are holds; otherwise there is only one.
  var isHeld: Bool
  /// Whether its owner has ended and the loss has been handled.
  var isOrphan = false

  /// How far its own clock is behind the clock of the world, in microseconds.
  var behind: Int64 = 0
  var pausedAt: Int64?

  /// The moments of this stay on the screen: asked for, will appear, did appear, will disappear.
  var asked: Int64
  var appears: Int64?
  /// The length of the fade-in that began at `appears`; a SHOW that supersedes it continues it.
  var fadeIn: Int64 = 0
  var seen: Int64?
  var goes: Int64?
  var fadeOut: Int64 = 0
  var isGone = false
  var end: Presentation.End?
  /// From when MIN counts, for MINFROM appear and MINFROM visible.
  var appearedFrom: Int64
  var visibleFrom: Int64
  /// When and how it is dismissed, after any DELAY.
  var dismissal: (moment: Int64, end: Presentation.End)?
  /// Whether the moment of the dismissal has come and been noticed.
  var isDismissed = false

  init(
    _ level: Level, _ request: Presentation.Request, _ generation: Generation, _ owner: Owner,
    at now: Int64
  ) {
    self.level = level
    self.generation = generation
    wishes = [Wish(request: request, generation: generation, owner: owner, since: now)]
    isHeld = [.loading, .progress].contains(request.kind)
    asked = now
    appearedFrom = now
    visibleFrom = now
  }

  /// Returns the time on its own clock.
  func own(_ now: Int64) -> Int64 { pausedAt ?? (now - behind) }

  var front: Wish { wishes.last! }
  var holds: [Wish] { isHeld ? wishes : [] }

  var mask: Presentation.Mask {
    let order: [Presentation.Mask] = [.none, .clear, .black, .gradient, .custom]
    return order.last { mask in wishes.contains { $0.request.mask == mask } }!
  }

  private var graceEnd: Int64 { asked + wishes.map(\.request.grace.microseconds).min()! }

  /// Returns when MIN releases what is dismissed at `moment`.
  private func release(_ moment: Int64) -> Int64 {
    let minimum = front.request.minimum.microseconds
    if minimum == 0 { return moment }
    let from: Int64 =
      switch front.request.minimumFrom {
      case .visible: seen == nil ? appears! + fadeIn : visibleFrom
      case .appear: appearedFrom
      case .request: asked
      case .stop: moment
      }
    return max(moment, from + minimum)
  }

  var state: HUDView.State {
    if isGone { return .hidden }
    if goes != nil { return .disappearing }
    if seen != nil { return .visible }
    return appears != nil ? .appearing : .waiting
  }

  var isDismissing: Bool { !isGone && (goes != nil || dismissal != nil) }

  /// Returns an event with the state right after it.
  func said(_ name: Event.Name, due: Int64? = nil, superseded: Generation? = nil) -> Said {
    Said(
      name, generation, due: due, end: end, superseded: superseded,
      detail: Self.detail(
        state, front.request, mask, front.fraction, Self.list(holds), isDismissing,
        isPaused: pausedAt != nil, front.owner))
  }

  /// Returns the fields that only events of HUDs have, as text.
  static func detail(
    _ state: HUDView.State, _ request: Presentation.Request, _ mask: Presentation.Mask,
    _ fraction: Double?, _ holds: [String], _ isDismissing: Bool, isPaused: Bool, _ owner: Owner
  ) -> String {
    "\(state) \(request.kind) \(mask) status \(request.status ?? []) fraction "
      + "\(fraction ?? -1) holds \(holds) dismissing \(isDismissing) paused \(isPaused) "
      + "owner \(owner)"
  }

  /// Returns holds as text, to compare the model with the engine.
  static func list(_ holds: [Wish]) -> [String] {
    holds.map { text($0.generation, $0.request, $0.fraction, $0.owner) }
  }

  static func text(
    _ generation: Generation, _ request: Presentation.Request, _ fraction: Double?, _ owner: Owner
  ) -> String {
    "\(generation.value) \(request.kind) \(request.mask) \(request.status ?? []) "
      + "\(request.path ?? []) \(fraction ?? -1) \(owner)"
  }

  /// When and how it begins to disappear; nil if that is not known yet.
  var goesAt: (moment: Int64, end: Presentation.End)? {
    guard seen != nil, goes == nil else { return nil }
    let limits = wishes.map(\.limit)
    let limit = limits.contains(nil) ? nil : limits.compactMap(\.self).max()
    let dismissed = dismissal.map { (moment: release($0.moment), end: $0.end) }
    guard let limit else { return dismissed }
    if let dismissed, dismissed.moment <= limit { return dismissed }
    return (limit, .timedOut)
  }

  /// The next step, and its moment on the stay's own clock.
  var next: (moment: Int64, step: Step)? {
    if isGone { return nil }
    if let goes { return (goes + fadeOut, .isGone) }
    if seen != nil {
      let first = wishes.indices.min { wishes[$0].limit ?? .max < wishes[$1].limit ?? .max }!
      if wishes.count > 1 { return wishes[first].limit.map { ($0, .loses(first)) } }
      return goesAt.map { ($0.moment, .goes($0.end)) }
    }
    if let appears {
      if let dismissal, release(dismissal.moment) < appears + fadeIn {
        return (release(dismissal.moment), .goes(dismissal.end))
      }
      return (appears + fadeIn, .isSeen)
    }
    if let dismissal, dismissal.moment <= graceEnd {
      return (dismissal.moment, front.request.early == .show ? .appearsEarly : .isNeverShown)
    }
    return (graceEnd, .appears)
  }

  /// The moment of the next step; nil if there is none, or if it is paused.
  var stepsAt: Int64? { pausedAt == nil ? next.map { $0.moment + behind } : nil }

  /// Takes the steps that are due by `now`, or by an earlier moment. `byTime`: time causes them, not
  /// a command.
  mutating func settle(
    _ now: Int64, through last: Int64? = nil, byTime: Bool, _ say: (Said) -> Void
  ) {
    guard pausedAt == nil else { return }
    let moment = own(now)
    while let (due, step) = next, due <= own(last ?? now) {
      take(step, moment, byTime ? due + behind : nil, say)
    }
    if let dismissal, dismissal.moment <= moment { isDismissed = true }
  }

  /// When the engine must wake for it: at the next step or at the end of a DELAY.
  var wakes: Int64? {
    guard pausedAt == nil, let next else { return nil }
    guard goes == nil, !isDismissed, let dismissal else { return next.moment + behind }
    return min(next.moment, dismissal.moment) + behind
  }

  /// Applies a dismissal during the grace at once, even on a stopped clock.
  mutating func decideInGrace(_ say: (Said) -> Void) {
    guard appears == nil, let pausedAt, let dismissal, dismissal.moment <= pausedAt,
      let (_, step) = next
    else { return }
    take(step, pausedAt, nil, say)
  }

  /// Drops all holds; what is shown does not change.
  mutating func letGo() {
    var last = front
    last.request.mask = mask
    last.request.grace = .init(microseconds: graceEnd - asked)
    wishes = [last]
    isHeld = false
  }

  private mutating func take(
    _ step: Step, _ moment: Int64, _ due: Int64?, _ say: (Said) -> Void
  ) {
    switch step {
    case .appears, .appearsEarly:
      appears = moment
      appearedFrom = moment
      fadeIn = front.request.fadeIn.microseconds
      if case .appearsEarly = step {
        dismissal?.moment = moment + fadeIn
        isDismissed = true
      }
      say(said(.willAppear, due: due))
    case .isSeen:
      seen = moment
      visibleFrom = moment
      for index in wishes.indices { wishes[index].since = moment }
      say(said(.didAppear, due: due))
    case .loses(let index):
      wishes.remove(at: index)
      say(said(.updated, due: due))
    case .goes(let why):
      goes = moment
      fadeOut = front.request.fadeOut.microseconds
      if seen == nil, fadeIn > 0 {
        let done = min(moment - appears!, fadeIn)
        fadeOut = (fadeOut * done + fadeIn - 1) / fadeIn
      }
      end = why
      letGo()
      say(said(.willDisappear, due: due))
    case .isGone:
      isGone = true
      say(said(.didDisappear, due: due))
    case .isNeverShown:
      isGone = true
      end = .neverShown
      say(said(.didDisappear, due: due))
    }
  }
}
