/// How many events, and bytes of them, an event log retains. Beyond that, the user with the most
/// loses the oldest: so each of n users keeps at least an nth of the log.
package struct EventBound: Sendable {
  package let count: Int
  package let bytes: Int

  package init(count: Int, bytes: Int) { (self.count, self.bytes) = (count, bytes) }

  /// What events take.
  package struct Amount: Sendable {
    package var count: Int
    package var bytes: Int

    package init(count: Int = 0, bytes: Int = 0) { (self.count, self.bytes) = (count, bytes) }

    package static func += (a: inout Amount, b: Amount) {
      a.count += b.count
      a.bytes += b.bytes
    }

    package static func -= (a: inout Amount, b: Amount) {
      a.count -= b.count
      a.bytes -= b.bytes
    }
  }

  /// Returns whose oldest events are to be dropped, and whether because of their bytes; nil if all
  /// may stay, or none can be dropped.
  ///
  /// - Parameters:
  ///   - users: the users who have events that can be dropped, and what all their events take.
  ///   - oldest: the number of a user's events that are dropped together. Events are not dropped if
  ///     fewer than `count` would be left.
  package func victim(
    of total: Amount, _ users: some Sequence<(user: UInt32, amount: Amount)>,
    oldest: (UInt32) -> Int
  ) -> (user: UInt32, isForBytes: Bool)? {
    let isForBytes = total.bytes > bytes
    guard isForBytes || total.count > count else { return nil }
    func rank(_ amount: Amount) -> Int { isForBytes ? amount.bytes : amount.count }
    let maximum = users.max { (rank($0.amount), $0.user) < (rank($1.amount), $1.user) }
    guard let user = maximum?.user, isForBytes || total.count - oldest(user) >= count else {
      return nil
    }
    return (user, isForBytes)
  }
}
