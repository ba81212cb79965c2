import Synchronization

/// Has whatever contains it stay where it is in memory while it is looked at.
///
/// Swift lends a large value to a function of another file or module as a copy of its bytes, all of
/// them, if it could as well be held in registers. A value with an atomic in it cannot, so its
/// address is lent.
package struct InPlace: ~Copyable, Sendable {
  private let anchor = Atomic<UInt8>(0)

  package init() {}
}
