/// Something that this daemon does to an entity by itself, for a command about several entities.
final class FleetAction {
  struct Result {
    var refusal: Refusal?
    /// How long it is refused.
    var wait = Interval.zero
    /// Whether it was accepted before, with this token.
    var isRepeated = false
    /// The id of what was taken.
    var id: Int64 = 0
    /// When it was decided, on the clock of the limit's server.
    var time = Instant.zero
    /// The error's reply, if it failed.
    var problem: [UInt8]?
    /// Whether it may have been done although it failed.
    var isUnsure = false
  }

  typealias Body = (Engine, Moment) throws(EngineError) -> Result

  /// Who takes; nil if something is given back.
  let client: Client?
  /// What happens while the servers cannot be reached.
  let unreachable: FleetSettings.Unreachable
  let body: Body
  /// Called once.
  let ended: (Result) -> Void
  /// Whether a repetition finds out if it was done.
  var isRemembered = false
  /// Called if the servers report that it was made after it ended with an error.
  var wasLate: (Result) -> Void = { _ in }

  init(
    by client: Client?, _ unreachable: FleetSettings.Unreachable, _ body: @escaping Body,
    ended: @escaping (Result) -> Void
  ) {
    self.client = client
    self.unreachable = unreachable
    self.body = body
    self.ended = ended
  }
}
