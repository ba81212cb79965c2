/// What the connections of one user have together, so that no user takes what others need.
package final class User {
  package internal(set) var connections = 0
  /// What they have not read, in bytes.
  package internal(set) var unreadBytes = 0
  /// The batch in which that became too much.
  var fullSince: Int?
  /// Connections that wait until there is room again.
  var heldBack: Set<UInt64> = []

  /// The commands of all its connections, and how long they took together, since its first
  /// connection of those that are open.
  private(set) var commands = 0
  private(set) var microseconds: Int64 = 0

  private var round = 0
  private var calls = 0
  private var callsBefore = 0
  private var spent = 0

  /// So many connections of a user have all of `commandsPerTurn`; more share that.
  private static let connectionsWithAll = 8

  /// Takes from what is left to all connections in this round.
  func spend(_ units: Int, microseconds: Int64, isCommand: Bool) {
    spent += units
    self.microseconds += microseconds
    if isCommand { commands += 1 }
  }

  /// How many commands a connection may have done in this round: fewer where the user has many at
  /// work, and none once they have spent as much as is there for all of them, so that a round, for
  /// which others wait, is not longer the more connections one opens.
  func share(of commandsPerTurn: Int, in round: Int) -> Int {
    if round != self.round {
      callsBefore = round == self.round + 1 ? calls : 0
      calls = 0
      spent = 0
      self.round = round
    }
    calls += 1
    let all = commandsPerTurn * Self.connectionsWithAll
    let atWork = max(calls, callsBefore, Self.connectionsWithAll)
    return min(max(all / atWork, 1), max(all - spent, 0))
  }
}
