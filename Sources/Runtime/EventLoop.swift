import CEpoll
import DequeModule
import DispatchTimers
import Glibc
import Synchronization

/// The owner of a descriptor that the loop watches.
package protocol EventSource: AnyObject {
  /// Called on the loop.
  ///
  /// - Parameter events: bits of epoll(7), such as `EPOLLIN`.
  func ready(_ events: EventLoop.Events)
}

/// Waits for sockets, for other threads and for delays, on the one thread that calls `runOnce`.
///
/// An iteration waits; lets each ready source read, and execute if its input is short; runs tasks
/// of other threads; runs delayed work; and runs the queue of long work for a millisecond. So a
/// client that asks for little is served in the next iteration, whatever others send.
///
/// Everything but `execute` belongs to that thread.
@safe package final class EventLoop: @unchecked Sendable {
  package typealias Events = UInt32

  package static let readable = Events(EPOLLIN.rawValue)
  package static let writable = Events(EPOLLOUT.rawValue)
  /// Events that are always reported: the other end is closed, or the socket has failed.
  package static let closed = Events(EPOLLHUP.rawValue | EPOLLERR.rawValue)

  /// The buffer that all sources read to, so that an idle connection takes no memory for one.
  package let readBuffer = UnsafeMutableRawBufferPointer.allocate(
    byteCount: 64 << 10, alignment: 16)

  private static let eventsPerIteration = 512
  /// How long the queue may run before the loop looks at sockets again.
  private static let sliceMicroseconds: UInt64 = 1_000

  private let epoll: Int32
  private let wake: Int32
  private let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: eventsPerIteration)
  /// Slots, indexed by descriptor.
  private var slots: [Slot] = []
  private var lastStamp: UInt32 = 0
  private let inbox = Mutex<[() -> Void]>([])
  /// Delayed work, soonest first.
  private var delayed: Deque<(due: UInt64, body: () -> Void)> = []
  private var queue: Deque<() -> Void> = []
  /// Work that goes to the front of the queue for the next round.
  private var nextRoundFirst: [() -> Void] = []
  /// The number of queue entries left in this round. Entries added meanwhile belong to the next.
  private var leftInRound = 0

  private struct Slot {
    var source: (any EventSource)?
    /// Tells an event of this source from one of an earlier source with the same descriptor.
    var stamp: UInt32 = 0
    /// The events that are waited for; nil if the descriptor is not watched.
    var interest: Events?
  }

  /// An error of errno(3): the system has no descriptor left.
  package struct OpenError: Error { package let errno: Int32 }

  package init() throws(OpenError) {
    epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard epoll >= 0 else { throw OpenError(errno: errno) }
    wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    // From here on `deinit` closes what is open, also when this throws.
    guard wake >= 0 else { throw OpenError(errno: errno) }
    guard control(EPOLL_CTL_ADD, wake, Self.readable, stamp: 0) else {
      throw OpenError(errno: errno)
    }
  }

  deinit {
    close(epoll)
    if wake >= 0 { close(wake) }
    unsafe events.deallocate()
    unsafe readBuffer.deallocate()
  }

  // MARK: Sources

  /// Watches a descriptor for a source until `remove`.
  ///
  /// - Returns: false if the kernel cannot watch one more.
  package func add(_ source: any EventSource, _ descriptor: Int32, _ interest: Events) -> Bool {
    let index = Int(descriptor)
    while slots.count <= index { slots.append(Slot()) }
    lastStamp &+= 1
    slots[index] = Slot(source: source, stamp: lastStamp)
    if update(descriptor, interest) { return true }
    slots[index] = Slot()
    return false
  }

  /// Changes the events that are waited for. With nil not even a closed socket is reported.
  ///
  /// - Returns: false if the kernel cannot watch one more, which can happen only after nil.
  @discardableResult
  package func update(_ descriptor: Int32, _ interest: Events?) -> Bool {
    let index = Int(descriptor)
    let old = slots[index].interest
    guard interest != old else { return true }
    let operation = interest == nil ? EPOLL_CTL_DEL : old == nil ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
    guard control(operation, descriptor, interest ?? 0, stamp: slots[index].stamp) else {
      return false
    }
    slots[index].interest = interest
    return true
  }

  /// Stops watching a descriptor. To be called before the descriptor is closed.
  package func remove(_ descriptor: Int32) {
    update(descriptor, nil)
    slots[Int(descriptor)] = Slot()
  }

  private func control(
    _ operation: Int32, _ descriptor: Int32, _ interest: Events, stamp: UInt32
  ) -> Bool {
    var event = unsafe epoll_event()
    unsafe event.events = interest
    unsafe event.data.u64 = UInt64(stamp) << 32 | UInt64(UInt32(bitPattern: descriptor))
    return unsafe epoll_ctl(epoll, operation, descriptor, &event) == 0
  }

  // MARK: Other work

  /// Runs `body` on the loop soon. Callable from any thread.
  package func execute(_ body: @escaping @Sendable () -> Void) {
    let isFirst = inbox.withLock { inbox in
      inbox.append(body)
      return inbox.count == 1
    }
    guard isFirst else { return }
    var one: UInt64 = 1
    // Fails only if the counter is full, and then the loop is awake anyway.
    _ = unsafe write(wake, &one, 8)
  }

  /// Runs `body` after a delay.
  package func schedule(inMilliseconds delay: UInt64, _ body: @escaping () -> Void) {
    let due = BootClock.now + delay * 1_000
    // Delays are similar, so most belong at the end.
    var index = delayed.endIndex
    while index > 0, delayed[index - 1].due > due { index -= 1 }
    delayed.insert((due, body), at: index)
  }

  /// Runs `body` after everything in the queue.
  ///
  /// - Parameter isOverlooked: whether the caller's turn did nothing; then `body` goes first.
  package func enqueue(isOverlooked: Bool = false, _ body: @escaping () -> Void) {
    if isOverlooked { nextRoundFirst.append(body) } else { queue.append(body) }
  }

  /// Whether all entries of this round have had their turn.
  package var isRoundOver: Bool { leftInRound == 0 }

  // MARK: Iterations

  /// - Parameter waits: whether to wait for events; false handles only those that are ready.
  package func runOnce(waits: Bool) {
    run(wait(waits))
  }

  /// Waits for at most `limit` microseconds, and not at all on kernels before 5.11.
  package func runOnce(waitsAtMostMicroseconds limit: UInt64) {
    var timeout = timespec(tv_sec: 0, tv_nsec: queue.isEmpty ? Int(limit) * 1_000 : 0)
    let count = unsafe epoll_pwait2(epoll, events, Int32(Self.eventsPerIteration), &timeout, nil)
    run(max(0, Int(count)))
  }

  private func run(_ count: Int) {
    if dispatch(count) { runInbox() }
    if !delayed.isEmpty { runDelayed() }
    if !queue.isEmpty { runQueue() }
    if isRoundOver, !nextRoundFirst.isEmpty {
      queue.prepend(contentsOf: nextRoundFirst)
      nextRoundFirst = []
    }
  }

  private func wait(_ waits: Bool) -> Int {
    var timeout: Int32 = -1
    if !waits || !queue.isEmpty {
      timeout = 0
    } else if let due = delayed.first?.due {
      let now = BootClock.now
      timeout = due <= now ? 0 : Int32(clamping: (due - now + 999) / 1_000)
    }
    let count = unsafe epoll_wait(epoll, events, Int32(Self.eventsPerIteration), timeout)
    if count >= 0 { return Int(count) }
    precondition(errno == EINTR, unsafe "epoll_wait: \(String(cString: strerror(errno)))")
    return 0
  }

  /// - Returns: whether another thread has submitted a task.
  private func dispatch(_ count: Int) -> Bool {
    var isWoken = false
    for index in 0..<count {
      let event = unsafe events[index]
      let descriptor = unsafe Int32(bitPattern: UInt32(truncatingIfNeeded: event.data.u64))
      if descriptor == wake {
        var counter: UInt64 = 0
        _ = unsafe read(wake, &counter, 8)
        isWoken = true
        continue
      }
      let slot = slots[Int(descriptor)]
      // The source may have been removed in this iteration.
      if unsafe slot.stamp == UInt32(event.data.u64 >> 32) {
        unsafe slot.source?.ready(event.events)
      }
    }
    return isWoken
  }

  private func runInbox() {
    let bodies = inbox.withLock { inbox in
      defer { inbox = [] }
      return inbox
    }
    for body in bodies { body() }
  }

  private func runDelayed() {
    let now = BootClock.now
    while let first = delayed.first, first.due <= now {
      delayed.removeFirst()
      first.body()
    }
  }

  private func runQueue() {
    if isRoundOver { leftInRound = queue.count }
    let end = BootClock.now + Self.sliceMicroseconds
    repeat {
      queue.removeFirst()()
      leftInRound -= 1
    } while !isRoundOver && BootClock.now < end
  }
}
