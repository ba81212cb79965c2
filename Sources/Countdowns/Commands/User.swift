/// Totals of all connections of one user, so that no user takes what others need.
package final class User {
  package internal(set) var connections = 0
  /// The unread output of its connections, in bytes.
  package internal(set) var unreadBytes = 0
  /// The batch in which `unreadBytes` reached the limit; nil while it is below.
  var fullSince: Int?
  /// Connections that wait until there is room for output again.
  var heldBack: Set<UInt64> = []

  /// The number of commands of its connections, and their total duration, since the user last had
  /// no open connection.
  private(set) var commands = 0
  private(set) var microseconds: Int64 = 0

  private var round = 0
  private var calls = 0
  private var callsBefore = 0
  private var spent = 0

  /// Up to this many connections of a user get `commandsPerTurn` each; more divide the total.
  private static let connectionsWithAll = 8

  /// Takes units from what the user has left in this round.
  func spend(_ units: Int, microseconds: Int64, isCommand: Bool) {
    spent += units
    self.microseconds += microseconds
    if isCommand { commands += 1 }
  }

  /// Returns how many commands a connection may execute in this round: fewer if the user has many
  /// connections at work, and none once they have spent the share of the user. So nobody makes
  /// rounds longer for others by opening more connections.
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
