import Glibc

/// A thread of lower priority that works when it is woken, or when a time has passed.
///
/// Timers and shared queues of libdispatch would wake the process once a second, even if there is
/// nothing to do.
///
/// `@unchecked Sendable`: `mutex` guards the flags; the pointers do not change.
@safe final class UpkeepThread: @unchecked Sendable {
  /// What the thread does next.
  enum Next {
    case goOn
    case waitUntilWoken
    case waitAtMost(microseconds: Int64)
  }

  private static let niceness: Int32 = 10

  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private let work: @Sendable () -> Next
  private var isWoken = false
  private var isStopping = false
  private var thread: pthread_t?

  /// - Parameter work: what the thread runs until `stop`.
  init(_ work: @escaping @Sendable () -> Next) {
    self.work = work
    unsafe pthread_mutex_init(mutex, nil)
    // Steps of the wall clock must not change the time to wait.
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(changed, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  }

  deinit {
    if let thread { pthread_detach(thread) }
    unsafe pthread_cond_destroy(changed)
    unsafe pthread_mutex_destroy(mutex)
    unsafe changed.deallocate()
    unsafe mutex.deallocate()
  }

  /// Starts the thread, which retains this object until it ends. Returns 0 or an error number.
  func start() -> Int32 {
    var thread = pthread_t()
    let retained = unsafe Unmanaged.passRetained(self)
    let code = unsafe pthread_create(
      &thread, nil, { unsafe runUpkeep($0) }, retained.toOpaque())
    if code == 0 { self.thread = thread } else { unsafe retained.release() }
    return code
  }

  func wake() { change { isWoken = true } }

  /// Has the thread end once the current call of `work` has returned.
  func endSoon() { change { isStopping = true } }

  /// Returns once the thread has ended.
  func stop() {
    endSoon()
    if let thread { pthread_join(thread, nil) }
    thread = nil
  }

  private func change(_ body: () -> Void) {
    unsafe pthread_mutex_lock(mutex)
    body()
    unsafe pthread_cond_signal(changed)
    unsafe pthread_mutex_unlock(mutex)
  }

  fileprivate func run() {
    // If this is not permitted, the priority stays.
    setpriority(Int32(PRIO_PROCESS.rawValue), 0, Self.niceness)
    var next = Next.waitUntilWoken
    while isWanted(after: next) { next = work() }
  }

  /// Waits, and returns whether to work.
  private func isWanted(after next: Next) -> Bool {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    switch next {
    case .goOn: break
    case .waitUntilWoken:
      while !isWoken, !isStopping { unsafe pthread_cond_wait(changed, mutex) }
    case .waitAtMost(let microseconds):
      let end = ChangeLog.now + microseconds
      var time = timespec(
        tv_sec: Int(end / 1_000_000), tv_nsec: Int(end % 1_000_000) * 1_000)
      while !isWoken, !isStopping,
        unsafe pthread_cond_timedwait(changed, mutex, &time) != ETIMEDOUT
      {}
    }
    isWoken = false
    return !isStopping
  }
}

/// - Parameter retained: an `UpkeepThread`.
private func runUpkeep(_ retained: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  unsafe Unmanaged<UpkeepThread>.fromOpaque(retained!).takeRetainedValue().run()
  return nil
}
