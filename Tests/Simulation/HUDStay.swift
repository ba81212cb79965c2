import Countdowns

/// What one level of a screen shows, naively: a list of moments, and arithmetic on them.
///
/// All moments are on a clock of its own that stands still while it is paused. Past moments are
/// those at which something was noticed; the next one follows from them and from what was asked.
struct HUDStay {
  /// What happens next, and when.
  enum Step {
    case appears, isSeen
    case goes(Presentation.End)
    case isGone, isNeverShown
  }

  let level: Level
  var request: Presentation.Request
  var generation: Generation
  var owner: Owner
  /// The owner is gone, and it was told so.
  var isOrphan = false
  var fraction: Double?
  /// One for each lease, in the order they were taken.
  var leases: [Owner] = []

  /// Its own clock: this much behind the clock of the world.
  var behind: Int64 = 0
  var pausedAt: Int64?

  /// The moments of this stay on the screen: asked for, will appear, did appear, will disappear.
  var asked: Int64
  var appears: Int64?
  /// How long the fade-in takes that began then; who supersedes it goes on with it.
  var fadeIn: Int64 = 0
  var seen: Int64?
  var goes: Int64?
  var isGone = false
  var end: Presentation.End?
  /// When the grace is over, and from when MIN and MAX count.
  var graceEnd: Int64
  var minimumFrom: Int64
  var maximumFrom: Int64
  /// When its end was asked for, or will have been by DELAY.
  var dismissal: (moment: Int64, end: Presentation.End)?
  /// Whether that moment has come and been noticed.
  var isDismissed = false

  init(
    _ level: Level, _ request: Presentation.Request, _ generation: Generation, _ owner: Owner,
    at now: Int64
  ) {
    self.level = level
    self.request = request
    self.generation = generation
    self.owner = owner
    asked = now
    graceEnd = now + request.grace.microseconds
    minimumFrom = now
    maximumFrom = now
    if request.kind == .loading { leases = [owner] }
  }

  /// The moment of its own clock.
  func own(_ now: Int64) -> Int64 { pausedAt ?? (now - behind) }

  /// When MIN lets go of what is dismissed at `moment`.
  private func release(_ moment: Int64) -> Int64 {
    let from: Int64 =
      switch request.minimumFrom {
      case .visible: minimumFrom
      case .request: asked
      case .stop: moment
      }
    return max(moment, from + request.minimum.microseconds)
  }

  var state: HUDView.State {
    if isGone { return .hidden }
    if goes != nil { return .disappearing }
    if seen != nil { return .visible }
    return appears != nil ? .appearing : .waiting
  }

  var isDismissing: Bool { !isGone && (goes != nil || dismissal != nil) }

  /// What an event tells, right after it.
  func said(_ name: Event.Name, due: Int64? = nil, superseded: Generation? = nil) -> Said {
    Said(
      name, generation, due: due, end: end, superseded: superseded,
      detail: Self.detail(
        state, request, fraction, Int64(leases.count), isDismissing, isPaused: pausedAt != nil,
        owner))
  }

  /// What an event tells of the presentation, beyond what all events tell.
  static func detail(
    _ state: HUDView.State, _ request: Presentation.Request, _ fraction: Double?, _ leases: Int64,
    _ isDismissing: Bool, isPaused: Bool, _ owner: Owner
  ) -> String {
    "\(state) \(request.kind) \(request.mask) status \(request.status ?? []) fraction "
      + "\(fraction ?? -1) leases \(leases) dismissing \(isDismissing) paused \(isPaused) "
      + "owner \(owner)"
  }

  /// When it begins to go, as far as is known.
  var goesAt: (moment: Int64, end: Presentation.End)? {
    guard seen != nil, goes == nil else { return nil }
    let dismissed = dismissal.map { (moment: release($0.moment), end: $0.end) }
    guard let longest = request.longest else { return dismissed }
    let limit = maximumFrom + longest.microseconds
    if let dismissed, dismissed.moment <= limit { return dismissed }
    return (limit, .timedOut)
  }

  /// The next step, in moments of its own clock.
  var next: (moment: Int64, step: Step)? {
    if isGone { return nil }
    if let goes { return (goes + request.fadeOut.microseconds, .isGone) }
    if seen != nil { return goesAt.map { ($0.moment, .goes($0.end)) } }
    if let appears { return (appears + fadeIn, .isSeen) }
    if let dismissal, dismissal.moment <= graceEnd {
      return (dismissal.moment, request.early == .show ? .appears : .isNeverShown)
    }
    return (graceEnd, .appears)
  }

  /// Does what is due by `now` and tells it. `byTime`: it is time that does it, not a command.
  mutating func settle(_ now: Int64, byTime: Bool, _ say: (Said) -> Void) {
    guard pausedAt == nil else { return }
    let moment = own(now)
    while let (due, step) = next, due <= moment {
      take(step, moment, byTime ? due + behind : nil, say)
    }
    if let dismissal, dismissal.moment <= moment { isDismissed = true }
  }

  /// When the engine must wake for it: for the next step, or for a DELAY that is over.
  var wakes: Int64? {
    guard pausedAt == nil, let next else { return nil }
    guard goes == nil, !isDismissed, let dismissal else { return next.moment + behind }
    return min(next.moment, dismissal.moment) + behind
  }

  /// A dismissal in the grace decides at once, even on a clock that stands still.
  mutating func decideInGrace(_ say: (Said) -> Void) {
    guard appears == nil, let pausedAt, let dismissal, dismissal.moment <= pausedAt,
      let (_, step) = next
    else { return }
    take(step, pausedAt, nil, say)
  }

  private mutating func take(
    _ step: Step, _ moment: Int64, _ due: Int64?, _ say: (Said) -> Void
  ) {
    switch step {
    case .appears:
      appears = moment
      fadeIn = request.fadeIn.microseconds
      say(said(.willAppear, due: due))
    case .isSeen:
      seen = moment
      minimumFrom = moment
      maximumFrom = moment
      say(said(.didAppear, due: due))
    case .goes(let why):
      goes = moment
      end = why
      leases = []
      say(said(.willDisappear, due: due))
    case .isGone:
      isGone = true
      say(said(.didDisappear, due: due))
    case .isNeverShown:
      isGone = true
      end = .neverShown
      say(said(.updated, due: due))
    }
  }
}
