import CountdownCore

/// One random history of a HUD. `broken` says which rules did not hold.
struct RandomHistory {
  private(set) var broken: [String] = []
  /// What was done, to be read when something broke.
  private(set) var inputs: [String] = []

  private var generator: SeededGenerator
  private var machine: Presentation?
  private var now = Instant(microseconds: 0)
  private var generation: Int64 = 0
  private var pausedSince: Instant?
  private var hasPaused = false
  private let owners: [Owner] = [.none, .connection(1), .connection(2)]

  /// What the observer knows from events alone.
  private var appearing = false
  private var shown = false
  private var disappearing = false
  private var appearedAt = Instant(microseconds: 0)
  private var shownAt = Instant(microseconds: 0)
  private var limitFrom = Instant(microseconds: 0)
  private var minimumFrom = Instant(microseconds: 0)

  init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

  mutating func run() {
    for _ in 0..<Int.random(in: 1...25, using: &generator) {
      pass(Int64.random(in: 0...60, using: &generator))
      input()
      check()
    }
    end()
  }

  // MARK: Inputs

  private mutating func input() {
    let owner = owners.randomElement(using: &generator)!
    switch Int.random(in: 0..<20, using: &generator) {
    case 0..<5: show(owner)
    case 5..<8: say("dismiss") { $0.dismiss(at: $1, $2) }
    case 8..<10:
      let delay = Interval.milliseconds(Int64.random(in: 0...80, using: &generator))
      say("dismiss delay \(delay.millisecondsRoundedUp)") { $0.dismiss(delay: delay, at: $1, $2) }
    case 10..<13: say("pop") { $0.pop(by: owner, at: $1, $2) }
    case 13: say("gone \(owner)") { $0.ownerGone(owner, at: $1, $2) }
    case 14..<16:
      let inside = Bool.random(using: &generator)
      say("tap") { $0.tap(inside: inside, at: $1, $2) }
    case 16:
      say("update") { $0.update(fraction: 0.5, status: [0x61, 0x62], at: $1, $2) }
    case 17: say("pause") { $0.pause(at: $1, $2) }
    default: say("resume") { $0.resume(at: $1, $2) }
    }
  }

  private mutating func show(_ owner: Owner) {
    let request = Presentation.Request.random(using: &generator)
    let old = machine?.isHidden == false ? machine : nil
    generation += 1
    let next = Generation(generation)
    inputs.append("\(now.microseconds / 1_000) show #\(generation) \(request)")
    if old == nil { minimumFrom = now }
    if let old, old.request.kind != request.kind { minimumFrom = now }
    limitFrom = now
    hasPaused = false
    var occurrences: [Presentation.Occurrence] = []
    if old == nil {
      machine = Presentation(request, generation: next, owner: owner, at: now) {
        occurrences.append($0)
      }
    } else {
      machine!.show(request, generation: next, owner: owner, at: now) { occurrences.append($0) }
    }
    let takesOver = disappearing
    for (index, occurrence) in occurrences.enumerated() {
      // The one thing that an old generation may still say is its did-disappear.
      let isOldsEnd = takesOver && index == 0 && occurrence.event == .didDisappear
      demand(occurrence.generation == next || isOldsEnd, "an old generation spoke")
      observe(occurrence)
    }
    if machine!.isPaused { broken.append("a new SHOW is paused") }
  }

  private mutating func say(
    _ what: String,
    _ input: (inout Presentation, Instant, (Presentation.Occurrence) -> Void) -> Void
  ) {
    guard machine != nil else { return }
    inputs.append("\(now.microseconds / 1_000) \(what)")
    var occurrences: [Presentation.Occurrence] = []
    input(&machine!, now) { occurrences.append($0) }
    if machine!.isPaused { hasPaused = true }
    for occurrence in occurrences {
      demand(occurrence.generation.value == generation, "an old generation spoke")
      observe(occurrence)
    }
  }

  /// Time passes: to the moment, or in one go, as after a suspend.
  private mutating func pass(_ milliseconds: Int64) {
    let end = now + .milliseconds(milliseconds)
    let isLate = Int.random(in: 0..<5, using: &generator) == 0
    while let next = machine?.nextExpiry, next <= end {
      now = isLate ? end : max(now, next)
      var occurrences: [Presentation.Occurrence] = []
      machine!.expire(at: now) { occurrences.append($0) }
      for occurrence in occurrences {
        demand(occurrence.due.map { $0 <= now } ?? false, "time did something before it was due")
        demand(occurrence.generation.value == generation, "an old generation spoke in time")
        observe(occurrence)
      }
      if let next = machine!.nextExpiry { demand(next > now, "due again at once") }
      if isLate { break }
    }
    now = end
  }

  private mutating func end() {
    say("resume") { $0.resume(at: $1, $2) }
    say("dismiss") { $0.dismiss(at: $1, $2) }
    for _ in 0..<50 { pass(100) }
    guard let machine else { return }
    demand(machine.isHidden, "not hidden in the end")
    demand(machine.nextExpiry == nil, "hidden, but armed")
    demand(machine.leases.isEmpty, "hidden, but leased")
    demand(!shown && !appearing && !disappearing, "events are not paired in the end")
  }

  // MARK: What must hold

  private mutating func observe(_ occurrence: Presentation.Occurrence) {
    let request = machine!.request
    switch occurrence.event {
    case .willAppear:
      demand(!shown && !appearing && !disappearing, "will-appear of what is there")
      appearing = true
      appearedAt = now
    case .didAppear:
      demand(appearing, "did-appear without will-appear")
      appearing = false
      shown = true
      shownAt = now
      limitFrom = now
    case .willDisappear:
      demand(shown, "will-disappear of what is not shown")
      demand(occurrence.end != nil, "will-disappear without an end")
      checkStay(request, occurrence.end)
      shown = false
      disappearing = true
    case .didDisappear:
      demand(disappearing, "did-disappear without will-disappear")
      demand(occurrence.end != nil, "did-disappear without an end")
      disappearing = false
    case .updated:
      if occurrence.end == .neverShown {
        demand(!shown && !appearing && !disappearing, "never shown, but it was")
      }
    case .touched, .paused, .resumed:
      break
    }
  }

  /// Not shorter than MIN, not longer than MAX. Pauses only make it longer.
  private mutating func checkStay(_ request: Presentation.Request, _ end: Presentation.End?) {
    if end == .timedOut {
      guard let longest = request.longest else { return broken.append("timed out without MAX") }
      demand(now - limitFrom >= longest, "timed out before MAX")
    } else if request.minimumFrom == .visible {
      demand(now - max(shownAt, minimumFrom) >= request.minimum, "shorter than MIN")
    }
  }

  private mutating func check() {
    guard let machine else { return }
    if let next = machine.nextExpiry { demand(next > now, "due in the past after an input") }
    demand(machine.leases.count >= 0, "leases below zero")
    demand(
      machine.request.kind == .loading || machine.leases.isEmpty, "leases of what is not loading")
    switch machine.phase {
    case .waiting: demand(!shown && !appearing && !disappearing, "waiting, but shown")
    case .appearing: demand(appearing, "appearing without will-appear")
    case .visible:
      demand(shown, "visible without did-appear")
      if !hasPaused, let longest = machine.request.longest {
        demand(now - limitFrom <= longest, "visible beyond MAX")
      }
    case .disappearing: demand(disappearing, "disappearing without will-disappear")
    case .hidden: demand(!shown && !appearing && !disappearing, "hidden, but shown")
    }
  }

  private mutating func demand(_ holds: Bool, _ rule: String) {
    if !holds { broken.append("\(now.microseconds / 1_000) \(rule)") }
  }
}
