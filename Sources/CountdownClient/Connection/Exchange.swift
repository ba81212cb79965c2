import NIOCore
import Synchronization
import Wire

/// Encoded commands and promises for their replies.
///
/// Until the commands are written, they can be rolled back. From then on, whoever stops waiting
/// cannot know whether the daemon runs them.
final class Exchange: Sendable {
  private enum Progress: UInt8, AtomicRepresentable { case waiting, written, rolledBack, cutShort }

  let bytes: ByteBuffer
  let promises: [EventLoopPromise<RESPValue>]
  /// Whether pushes answer the commands, which subscribe or unsubscribe; errors are replies there,
  /// too.
  let isConfirmed: Bool
  private let progress = Atomic(Progress.waiting)

  init(bytes: ByteBuffer, promises: [EventLoopPromise<RESPValue>], isConfirmed: Bool) {
    self.bytes = bytes
    self.promises = promises
    self.isConfirmed = isConfirmed
  }

  /// Returns whether to write the commands now; false if they have been rolled back.
  func begin() -> Bool { leaveWaiting(for: .written) }

  /// Notes that the connection ended before it took all bytes. The daemon runs no command that it
  /// has only in part, but may run those before it.
  func cutShort() {
    if !rollBack(.connectionClosed), promises.count == 1 {
      progress.store(.cutShort, ordering: .releasing)
    }
  }

  /// Whether the daemon runs nothing of it, although its bytes were on their way.
  var isCutShort: Bool { progress.load(ordering: .acquiring) == .cutShort }

  /// Ends the wait for the replies. Those that still come are dropped: only the first result of a
  /// promise counts.
  func end(_ reason: Interruption) {
    if !rollBack(reason) { fail(CountdownClientError.unsure(reason)) }
  }

  /// Ends the wait unless the commands have been written; returns whether it did.
  @discardableResult
  func rollBack(_ reason: Interruption) -> Bool {
    guard leaveWaiting(for: .rolledBack) else { return false }
    fail(reason.errorBeforeSending)
    return true
  }

  private func leaveWaiting(for next: Progress) -> Bool {
    progress.compareExchange(
      expected: .waiting, desired: next, ordering: .acquiringAndReleasing
    ).exchanged
  }

  private func fail(_ error: any Error) {
    for promise in promises { promise.fail(error) }
  }
}

/// The time that a call may take, connecting and a repetition included.
struct TimeLimit: Sendable {
  /// More than a century counts as a century.
  private static let longest = Duration.seconds(3_155_760_000)

  let duration: Duration
  private let end: ContinuousClock.Instant

  init(_ duration: Duration) {
    self.duration = duration
    end = .now + min(duration, Self.longest)
  }

  var left: TimeAmount {
    let (seconds, attoseconds) = max(ContinuousClock.now.duration(to: end), .zero).components
    return .nanoseconds(seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
  }
}
