import Glibc

/// A value that only one thread at a time may use.
///
/// Works like `Synchronization.Mutex`, but ThreadSanitizer understands it: on Linux the waiting
/// half of `Mutex` is in a library without instrumentation, which causes reports for correct
/// programs.
///
/// Not recursive: locking it again within `withLock` stops the program.
///
/// Sendable for any value, because `sending` hands the value over and only the lock gives access.
@safe package final class Lock<Value: ~Copyable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  package init(_ value: consuming sending Value) {
    self.value = value
    unsafe mutex = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    var attributes = pthread_mutexattr_t()
    unsafe pthread_mutexattr_init(&attributes)
    unsafe pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_ERRORCHECK))
    let result = unsafe pthread_mutex_init(mutex, &attributes)
    precondition(result == 0, "pthread_mutex_init failed")
    unsafe pthread_mutexattr_destroy(&attributes)
  }

  deinit {
    unsafe pthread_mutex_destroy(mutex)
    unsafe mutex.deallocate()
  }

  /// Calls `body` with exclusive access to the value.
  package func withLock<Result: ~Copyable>(
    _ body: (inout sending Value) -> sending Result
  ) -> sending Result {
    let locked = unsafe pthread_mutex_lock(mutex)
    precondition(locked == 0, "a lock was taken twice by the same thread")
    defer { unsafe pthread_mutex_unlock(mutex) }
    return body(&value)
  }
}
