import Synchronization

/// Makes Swift pass a value that contains it by address.
///
/// Swift passes a borrowed large value to a function of another file or module as a copy of all its
/// bytes, if registers could hold the value. They cannot hold an atomic, so Swift passes the
/// address of a value that contains one.
package struct InPlace: ~Copyable, Sendable {
  private let anchor = Atomic<UInt8>(0)

  package init() {}
}
