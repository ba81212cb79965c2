/// A rate limit, an idempotency guard, a gate or debounced calls, as they are kept: all in one
/// table, as they are much alike.
package struct GuardRecord: StoredRecord, Equatable, Sendable {
  package enum Kind: UInt32, CaseIterable, Sendable {
    case throttle = 0
    case once, gate, debounce
  }

  /// Moments are on the store's clock, see `StoreClock`; all are in microseconds.
  package enum State: Equatable, Sendable {
    /// All is there again at `arrival`, and `fraction` parts of `rateCount` of a microsecond.
    case throttle(
      arrival: Int64, fraction: UInt32, burst: Int64, rateCount: Int64, ratePeriod: Int64)
    /// Done if there is a result.
    case once(deadline: Int64, result: [UInt8]?)
    case gatePending(deadline: Int64, action: [UInt8], payload: [UInt8]?)
    /// For good without a deadline.
    case gateOpen(deadline: Int64?)
    /// Nothing waits if `waitingSince` is nil.
    case debounce(
      lastCall: Int64, quiet: Int64, maximumWait: Int64?, isLeading: Bool, waitingSince: Int64?,
      calls: Int64, payload: [UInt8]?)

    package var kind: Kind {
      switch self {
      case .throttle: .throttle
      case .once: .once
      case .gatePending, .gateOpen: .gate
      case .debounce: .debounce
      }
    }
  }

  /// Its place in the engine's table of its kind.
  package var place: UInt32
  package var key: [UInt8]
  package var generation: Int64
  package var uid: UInt32
  package var state: State

  package init(
    place: UInt32, key: [UInt8], generation: Int64, uid: UInt32, state: State
  ) {
    self.place = place
    self.key = key
    self.generation = generation
    self.uid = uid
    self.state = state
  }

  // MARK: Place

  /// Row ids have the kind above so many bits of the place: more than there may be entities.
  private static let placeBits: UInt32 = 30

  /// The row id.
  package var index: UInt32 { Self.index(state.kind, place) }

  package static func index(_ kind: Kind, _ place: UInt32) -> UInt32 {
    precondition(place < 1 << placeBits, "more guards than any limit allows")
    return kind.rawValue << placeBits | place
  }

  package static func place(of index: UInt32) -> (kind: Kind, place: UInt32) {
    (Kind(rawValue: index >> placeBits)!, index & (1 << placeBits - 1))
  }

  // MARK: Row

  static let table = "guards"
  static let columns = [
    "id", "kind", "key", "generation", "uid", "phase", "moment_store_us", "since_store_us",
    "interval_us", "max_wait_us", "number", "rate_count", "fraction", "action", "payload",
  ]

  func bind(to row: Statement) {
    row.bind(1, Int64(index))
    row.bind(2, Int64(state.kind.rawValue))
    row.bind(3, key)
    row.bind(4, generation)
    row.bind(5, Int64(uid))
    var columns = Columns()
    columns.fill(state)
    row.bind(6, columns.phase)
    row.bind(7, columns.moment)
    row.bind(8, columns.since)
    row.bind(9, columns.interval)
    row.bind(10, columns.maximumWait)
    row.bind(11, columns.number)
    row.bind(12, columns.rateCount)
    row.bind(13, columns.fraction)
    row.bind(14, columns.action)
    row.bind(15, columns.payload)
  }

  init?(row: Statement) {
    guard let index = UInt32(exactly: row.number(0)),
      let uid = UInt32(exactly: row.number(4))
    else { return nil }
    let (kind, place) = Self.place(of: index)
    guard row.number(1) == Int64(kind.rawValue), place < StoredPlaces.end else { return nil }
    var columns = Columns()
    columns.phase = row.number(5)
    columns.moment = row.optionalNumber(6)
    columns.since = row.optionalNumber(7)
    columns.interval = row.optionalNumber(8)
    columns.maximumWait = row.optionalNumber(9)
    columns.number = row.optionalNumber(10)
    columns.rateCount = row.optionalNumber(11)
    columns.fraction = row.optionalNumber(12)
    columns.action = row.optionalBytes(13)
    columns.payload = row.optionalBytes(14)
    guard let state = columns.state(kind) else { return nil }
    self.init(
      place: place, key: row.bytes(2), generation: row.number(3), uid: uid, state: state)
  }

  /// What differs from kind to kind. The schema says what each column means.
  private struct Columns {
    var phase: Int64 = 0
    var moment: Int64?
    var since: Int64?
    var interval: Int64?
    var maximumWait: Int64?
    var number: Int64?
    var rateCount: Int64?
    var fraction: Int64?
    var action: [UInt8]?
    var payload: [UInt8]?

    mutating func fill(_ state: State) {
      switch state {
      case .throttle(let arrival, let fraction, let burst, let rateCount, let ratePeriod):
        moment = arrival
        self.fraction = Int64(fraction)
        number = burst
        self.rateCount = rateCount
        interval = ratePeriod
      case .once(let deadline, let result):
        phase = result == nil ? 0 : 1
        moment = deadline
        payload = result
      case .gatePending(let deadline, let action, let payload):
        moment = deadline
        self.action = action
        self.payload = payload
      case .gateOpen(let deadline):
        phase = 1
        moment = deadline
      case .debounce(
        let lastCall, let quiet, let maximumWait, let isLeading, let waitingSince, let calls,
        let payload):
        phase = isLeading ? 1 : 0
        moment = lastCall
        interval = quiet
        self.maximumWait = maximumWait
        since = waitingSince
        number = calls
        self.payload = payload
      }
    }

    /// Nil if nothing of this kind is written like this.
    func state(_ kind: Kind) -> State? {
      switch (kind, phase) {
      case (.throttle, 0):
        guard let moment, let number, let rateCount, let interval,
          let fraction = fraction.flatMap({ UInt32(exactly: $0) })
        else { return nil }
        return .throttle(
          arrival: moment, fraction: fraction, burst: number, rateCount: rateCount,
          ratePeriod: interval)
      case (.once, 0), (.once, 1):
        guard let moment, (payload == nil) == (phase == 0) else { return nil }
        return .once(deadline: moment, result: payload)
      case (.gate, 0):
        guard let moment, let action else { return nil }
        return .gatePending(deadline: moment, action: action, payload: payload)
      case (.gate, 1):
        return .gateOpen(deadline: moment)
      case (.debounce, 0), (.debounce, 1):
        guard let moment, let interval, let number else { return nil }
        return .debounce(
          lastCall: moment, quiet: interval, maximumWait: maximumWait, isLeading: phase == 1,
          waitingSince: since, calls: number, payload: payload)
      default:
        return nil
      }
    }
  }
}
