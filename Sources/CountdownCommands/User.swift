/// What the connections of one user have together, so that no user takes what others need.
package final class User {
  package internal(set) var connections = 0
  /// What they have not read, in bytes.
  package internal(set) var unreadBytes = 0
  /// The turn in which that became too much.
  var fullSince: Int?

  private var turn = 0
  private var calls = 0
  private var callsBefore = 0

  /// So many connections of a user have all of `commandsPerTurn`; more share that.
  private static let connectionsWithAll = 8

  /// How many commands a connection may have done in this turn: fewer where the user has many at
  /// work, so that a turn, for which others wait, is not longer the more connections one opens.
  func share(of commandsPerTurn: Int, in turn: Int) -> Int {
    if turn != self.turn {
      callsBefore = turn == self.turn + 1 ? calls : 0
      calls = 0
      self.turn = turn
    }
    calls += 1
    let atWork = max(calls, callsBefore)
    guard atWork > Self.connectionsWithAll else { return commandsPerTurn }
    return max(commandsPerTurn * Self.connectionsWithAll / atWork, 1)
  }
}
