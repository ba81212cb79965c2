/// Divides the loop's time, so that no client makes others wait long.
///
/// - A *unit* is what a small command costs; a longer one costs one more for each 4 µs.
/// - A *round* is over once each connection that has sent commands has had its turn.
/// - A *share* is what a user may spend in a round, in units. Its connections divide it.
/// - A *lap* is what one command takes.
package struct Fairness {
  /// The number of the current round.
  fileprivate(set) var round = 0
  private let stopwatch: () -> Int64
  private var lapBegan: Int64?

  private static let microsecondsPerUnit: Int64 = 4

  init(_ stopwatch: @escaping () -> Int64) { self.stopwatch = stopwatch }

  /// Begins a round, in which each user has a share again.
  package mutating func beginRound() { round += 1 }

  static func units(for microseconds: Int64) -> Int {
    1 + Int(clamping: max(microseconds, 0) / microsecondsPerUnit)
  }

  // MARK: Laps

  /// Begins to time each command from the end of the one before: reading the clock takes about as
  /// long as a small command.
  ///
  /// - Parameter now: the stopwatch's time, if it is known.
  package mutating func beginLaps(_ now: Int64? = nil) { lapBegan = now ?? stopwatch() }

  package mutating func endLaps() { lapBegan = nil }

  /// When the current lap began, in microseconds of the stopwatch.
  var lapBegin: Int64 { lapBegan ?? stopwatch() }

  /// Ends a lap that began at `begin`. Returns how long it took, in microseconds.
  mutating func lap(since begin: Int64) -> Int64 {
    let now = stopwatch()
    if lapBegan != nil { lapBegan = now }
    return now - begin
  }

  /// What one user has done in a round.
  struct Share {
    private var round = 0
    private var turns = 0
    private var turnsBefore = 0
    private var spent = 0

    /// Up to this many connections of a user get `commandsPerTurn` each; more divide the total.
    private static let connectionsWithAll = 8

    mutating func spend(_ units: Int) { spent += units }

    /// Begins a connection's turn. Returns how many units it may spend: fewer if the user has many
    /// connections at work, and none once they have spent the user's share. So nobody makes rounds
    /// longer for others by opening more connections.
    mutating func beginTurn(_ commandsPerTurn: Int, in round: Int) -> Int {
      if round != self.round {
        turnsBefore = round == self.round + 1 ? turns : 0
        turns = 0
        spent = 0
        self.round = round
      }
      turns += 1
      let all = commandsPerTurn * Self.connectionsWithAll
      let atWork = max(turns, turnsBefore, Self.connectionsWithAll)
      return min(max(all / atWork, 1), max(all - spent, 0))
    }
  }
}
