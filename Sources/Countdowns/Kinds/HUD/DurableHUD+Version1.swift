/// Version 1 of the stored form: one request, and the number of holds with and without an owner.
extension DurableHUD.Shown {
  mutating func readVersion1<Bytes: StorageVisitor>(_ bytes: inout Bytes) {
    bytes.choice("level", &level)
    var show = Presentation.Show.blank
    show.request.fields(&bytes)
    bytes.field("generation", &show.generation.value)
    var phase: UInt8 = 0
    var until = Instant.zero
    bytes.field("phase", &phase)
    bytes.require(phase <= 4)
    if [0, 1, 3].contains(phase) { bytes.instant("until", &until) }
    machine = .blank
    Presentation.Dismissal.fields(&machine.dismissal, &bytes)
    Presentation.End.fields(&machine.end, &bytes)
    bytes.fraction(&show.fraction)
    var unowned: Int64 = 0
    var owned: Int64 = 0
    bytes.field("unowned", &unowned)
    bytes.field("owned", &owned)
    bytes.require(unowned >= 0 && owned >= 0)
    bytes.instant("requested_at", &machine.requestedAt)
    bytes.instant("visible_since", &machine.visibleSince)
    bytes.instant("limited_since", &show.since)
    bytes.instant("paused_at", &machine.pausedAt)
    guard !bytes.hasFailed else { return }

    machine.generation = show.generation
    let fadeIn = show.request.fadeIn
    let seen = phase == 1 ? until : machine.visibleSince
    machine.appearedAt = Instant(microseconds: seen.microseconds - fadeIn.microseconds)
    machine.phase =
      switch phase {
      case 0: .waiting
      case 1: .appearing(since: machine.appearedAt, until: until)
      case 2: .visible
      case 3: .disappearing(until: until)
      default: .hidden
      }
    machine.isHeld =
      show.request.kind.takesHold && machine.dismissal == nil && phase <= 2
    guard machine.isHeld else {
      machine.shows = [show]
      return
    }
    // Owned holds ended with the daemon. Without other holds, a closed owner ends the HUD too.
    if unowned == 0, owned > 0 { show.owner = .connection(0) }
    let count = min(max(1, unowned), Int64(Presentation.mostHolds))
    machine.shows = Array(repeating: show, count: Int(count))
  }
}
