/// Totals of all connections of one user, so that no user takes what others need.
package final class User {
  package internal(set) var connections = 0
  /// The unread output of its connections, in bytes.
  package internal(set) var unreadBytes = 0
  /// The bytes of the commands that its connections have sent since MULTI.
  var queuedBytes = 0
  /// The batch in which `unreadBytes` reached the limit; nil while it is below.
  var fullSince: Int?
  /// Connections that wait until there is room for output again.
  var heldBack: Set<UInt64> = []

  /// The number of commands of its connections, and their total duration, since the user last had
  /// no open connection.
  private(set) var commands = 0
  private(set) var microseconds: Int64 = 0

  var share = Fairness.Share()

  /// Takes units from what the user has left in this round.
  func spend(_ units: Int, microseconds: Int64, isCommand: Bool) {
    share.spend(units)
    self.microseconds += microseconds
    if isCommand { commands += 1 }
  }
}
