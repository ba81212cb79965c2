import Glibc
import Synchronization

/// A timer library that reads the system's clock, so that real time has to pass.
protocol RealClockPeer: AnyObject {
  static var name: String { get }
  /// Returns the largest number of timers for which the workload ends in reasonable time.
  static func limit(_ workload: String) -> Int
  /// Whether timers can be armed one after the other, each cancelled before the next.
  static var isReusable: Bool { get }
  /// The time set aside for arming one timer. The first timer is due after all are armed.
  static var armingMicroseconds: UInt64 { get }

  init(count: Int)

  /// The number of outstanding callbacks.
  var left: Int { get }

  /// Arms each timer `i` for `margin + delays[i]` microseconds from now. Returns once the library's
  /// own threads have finished arming.
  func arm(_ delays: [UInt32], margin: UInt64)
  func cancel(_ order: [UInt32])
  /// Moves the timers in `picks` to `delay` microseconds from now.
  func reschedule(_ picks: [UInt32], delay: UInt64)
  /// Prevents firing until all timers are due, then lets them fire.
  ///
  /// - Returns: The nanoseconds from then until the end of the last callback.
  func fire(dueBy deadline: UInt64) -> UInt64
}

extension RealClockPeer {
  static var isReusable: Bool { true }
}

/// Counts the outstanding callbacks and stores the time of the last one.
final class Remaining: Sendable {
  private let count: Atomic<Int>
  private let end = Atomic<UInt64>(0)

  init(_ count: Int) { self.count = Atomic(count) }

  var left: Int { count.load(ordering: .acquiring) }

  func one() {
    if count.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 {
      end.store(now(), ordering: .releasing)
    }
  }

  /// Waits for the last callback and returns its time in nanoseconds.
  func wait() -> UInt64 {
    var time = end.load(ordering: .acquiring)
    while time == 0 {
      usleep(100)
      time = end.load(ordering: .acquiring)
    }
    return time
  }
}

/// Stops the whole process, with all its threads, until `deadline` has passed.
///
/// - Returns: The time at which the process continued, in nanoseconds.
func stopProcess(until deadline: UInt64) -> UInt64 {
  var ends: [CInt] = [0, 0]
  guard pipe(&ends) == 0 else { fail("cannot make a pipe") }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO)
  defer { posix_spawn_file_actions_destroy(&actions) }
  var arguments: [UnsafeMutablePointer<CChar>?] = []
  for argument in ["/proc/self/exe", "stop", "\(getpid())", "\(deadline)", "0", "0"] {
    arguments.append(strdup(argument))
  }
  arguments.append(nil)
  defer { for argument in arguments { free(argument) } }
  var child = pid_t()
  guard posix_spawn(&child, "/proc/self/exe", &actions, nil, arguments, environ) == 0 else {
    fail("cannot start another process")
  }
  // The other process writes the time while this process is stopped.
  var time: UInt64 = 0
  guard read(ends[0], &time, 8) == 8, time >= deadline else { fail("went on too early") }
  return time
}

/// Stops `process` until `deadline`; called in another process. All processes share the clock.
func stopAnother(process: pid_t, until deadline: UInt64) -> Never {
  guard kill(process, SIGSTOP) == 0 else { fail("cannot stop the process") }
  sleep(until: deadline)
  var time = now()
  write(STDOUT_FILENO, &time, 8)
  kill(process, SIGCONT)
  exit(0)
}

struct RealClockWorkloads<Peer: RealClockPeer> {
  let count: Int
  let mix: Mix
  let report: Report

  func run(_ workload: String) {
    guard count <= Peer.limit(workload) else { return }
    switch workload {
    case "cancel": cancel()
    case "expire": expire(mix.delays)
    case "same": expire([UInt32](repeating: 1, count: count))
    case "reschedule": reschedule()
    case "one": one()
    // The libraries have no virtual time and no public call for the next deadline.
    case "hour", "next": break
    default: fail("no workload \(workload)")
    }
  }

  private func cancel() {
    let peer = Peer(count: count)
    let before = residentBytes()
    let start = now()
    // More than an hour from now, so that no timer fires.
    peer.arm(mix.delays, margin: Mix.hour * 1_000)
    let armed = now()
    let bytes = Double(residentBytes() - before) / Double(count)
    let middle = now()
    peer.cancel(mix.order)
    let end = now()
    report.print("schedule", armed - start, operations: count, bytesPerTimer: bytes)
    report.print("cancel", end - middle, operations: count)
  }

  /// Arms and cancels one timer, with no other pending, again and again.
  private func one() {
    var (arming, cancelling): (UInt64, UInt64) = (0, 0)
    let shared = Peer(count: count)
    for index in 0..<UInt32(count) {
      let peer = Peer.isReusable ? shared : Peer(count: 1)
      let start = now()
      peer.arm([0], margin: Mix.hour * 1_000)
      let armed = now()
      peer.cancel([Peer.isReusable ? index : 0])
      arming += armed - start
      cancelling += now() - armed
    }
    report.print("schedule", arming, operations: count)
    report.print("cancel", cancelling, operations: count)
  }

  private func expire(_ delays: [UInt32]) {
    let peer = Peer(count: count)
    let margin = UInt64(count) * Peer.armingMicroseconds + 300_000
    let before = residentBytes()
    let start = now()
    peer.arm(delays, margin: margin)
    let armed = now()
    let bytes = Double(residentBytes() - before) / Double(count)
    guard armed + 100_000_000 < start + margin * 1_000 else {
      fail("arming took longer than the time set aside for it")
    }
    guard peer.left == count else { fail("timers fired before all were armed") }
    let longest = UInt64(delays.max()!) + margin + 10_000
    let taken = peer.fire(dueBy: armed + longest * 1_000)
    report.print("schedule", armed - start, operations: count, bytesPerTimer: bytes)
    report.print("expire", taken, operations: count)
  }

  private func reschedule() {
    let peer = Peer(count: count)
    // Opens all connections at once, unlike with virtual time: real time passes during the phase.
    peer.arm([UInt32](repeating: 0, count: count), margin: 60_000_000)
    let start = now()
    peer.reschedule(mix.picks, delay: 60_000_000)
    let end = now()
    guard end - start < 55_000_000_000 else { fail("connections timed out") }
    report.print("reschedule", end - start, operations: 2 * count)
    peer.cancel(mix.order)
  }
}
