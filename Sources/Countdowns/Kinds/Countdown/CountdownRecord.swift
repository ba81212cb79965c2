import Memory

/// A countdown, packed.
struct CountdownRecord: BitwiseCopyable {
  struct Flags: OptionSet {
    let rawValue: UInt32
    static let isUsed = Flags(rawValue: 1 << 28)
    static let isArmed = Flags(rawValue: 1 << 29)
    static let isRefunded = Flags(rawValue: 1 << 30)
    static let hasExtras = Flags(rawValue: 1 << 31)
  }

  private static let maximumSends: UInt32 = 1 << 28 - 1

  // In halves, because eight-byte fields would add padding.
  private var timeLow: UInt32 = 0
  private var timeHigh: UInt32 = 0
  private var generationLow: UInt32 = 0
  private var generationHigh: UInt32 = 0
  /// The timer's record in the wheel; valid only while the flag `isArmed` is set.
  private var alarm: UInt32 = 0
  var terms: TermsTable.ID = 0
  var key: KeyArena.Offset = 0
  /// The hash of the key, so that the index can grow without reading keys.
  private(set) var hash: KeyIndex.Hash = 0
  private var sendsAndFlags: UInt32 = 0

  init() {}

  @inline(__always)
  init(
    _ machine: Countdown, _ generation: Generation, _ key: KeyArena.Offset, _ hash: KeyIndex.Hash,
    _ terms: TermsTable.ID
  ) {
    self.key = key
    self.hash = hash
    self.terms = terms
    sendsAndFlags = Flags.isUsed.rawValue
    self.generation = generation
    update(machine)
  }

  /// Writes the machine except its plan, which is in the terms.
  mutating func update(_ machine: Countdown) {
    // Instants and intervals are far below 2⁶¹ µs in magnitude.
    let time: Int64 =
      switch machine.phase {
      case .counting(let until): until.microseconds << 2
      case .paused(let left): left.microseconds << 2 | 1
      case .ready(let since): since.microseconds << 2 | 2
      case .idle(let since): since.microseconds << 2 | 3
      }
    timeLow = UInt32(truncatingIfNeeded: time)
    timeHigh = UInt32(truncatingIfNeeded: time >> 32)
    let isRefunded = machine.isRefunded ? Flags.isRefunded.rawValue : 0
    let others = flags.subtracting(.isRefunded).rawValue
    sendsAndFlags = min(machine.sends, Self.maximumSends) | isRefunded | others
  }

  var flags: Flags { Flags(rawValue: sendsAndFlags & ~Self.maximumSends) }

  var generation: Generation {
    get { Generation(Int64(bitPattern: UInt64(generationHigh) << 32 | UInt64(generationLow))) }
    set {
      let value = UInt64(bitPattern: newValue.value)
      generationLow = UInt32(truncatingIfNeeded: value)
      generationHigh = UInt32(truncatingIfNeeded: value >> 32)
    }
  }

  mutating func setHasExtras(_ hasExtras: Bool) {
    let others = sendsAndFlags & ~Flags.hasExtras.rawValue
    sendsAndFlags = hasExtras ? others | Flags.hasExtras.rawValue : others
  }

  var timer: UInt32? { flags.contains(.isArmed) ? alarm : nil }

  mutating func arm(_ timer: UInt32?) {
    guard let timer else {
      sendsAndFlags &= ~Flags.isArmed.rawValue
      return
    }
    alarm = timer
    sendsAndFlags |= Flags.isArmed.rawValue
  }

  func machine(_ plan: Countdown.Plan) -> Countdown {
    let time = Int64(bitPattern: UInt64(timeHigh) << 32 | UInt64(timeLow))
    let phase: Countdown.Phase =
      switch time & 3 {
      case 0: .counting(until: Instant(microseconds: time >> 2))
      case 1: .paused(left: Interval(microseconds: time >> 2))
      case 2: .ready(since: Instant(microseconds: time >> 2))
      default: .idle(since: Instant(microseconds: time >> 2))
      }
    return Countdown(
      plan, phase, sends: sendsAndFlags & Self.maximumSends,
      isRefunded: flags.contains(.isRefunded))
  }
}
