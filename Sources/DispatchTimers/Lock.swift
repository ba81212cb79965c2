import Glibc

/// A value that one thread at a time may use.
///
/// It is to be used like `Synchronization.Mutex` and would be that, if ThreadSanitizer could see
/// it: on Linux the waiting half of `Mutex` is in a library that is not instrumented, so that
/// correct programs are reported. A pthread mutex it knows, and what it reports here is worth
/// reading.
///
/// Not recursive: locking it again within `withLock` stops the program.
///
/// Sendable whatever it guards, because the value came from elsewhere for good (`sending`) and is
/// touched under the lock only.
package final class Lock<Value: ~Copyable>: @unchecked Sendable {
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private var value: Value

  package init(_ value: consuming sending Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    var attributes = pthread_mutexattr_t()
    pthread_mutexattr_init(&attributes)
    pthread_mutexattr_settype(&attributes, CInt(PTHREAD_MUTEX_ERRORCHECK))
    let result = pthread_mutex_init(mutex, &attributes)
    precondition(result == 0, "pthread_mutex_init failed")
    pthread_mutexattr_destroy(&attributes)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  /// Calls `body` with the value, and nobody else meanwhile.
  package func withLock<Result: ~Copyable>(
    _ body: (inout sending Value) -> sending Result
  ) -> sending Result {
    let locked = pthread_mutex_lock(mutex)
    precondition(locked == 0, "a lock was taken twice by the same thread")
    defer { pthread_mutex_unlock(mutex) }
    return body(&value)
  }
}
