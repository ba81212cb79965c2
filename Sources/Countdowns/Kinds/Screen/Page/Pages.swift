import TimerWheel

package struct PageEntity: KeyedEntity {
  let key: [UInt8]
  var machine: PageLoad
  /// The generation of the newest load.
  package var generation: Generation
  var owner: Owner
  var uid: UInt32
  var options: PageOptions
  /// Whether the page is on a navigation stack: it appears and disappears with the stack, and ends
  /// with its scope, which owns it.
  var isBound = false
  /// The owner name with which the page requests the HUD of its screen; nil while it does not.
  var lease: OwnerName?
  var alarm: TimerWheel.Token?
  var nextExpiry: Instant? { machine.nextExpiry }
}

/// The options of PAGE APPEAR, which later loads of the page use too.
package struct PageOptions: Equatable, Sendable {
  package var refresh = PageLoad.Refresh.always
  /// The time after which a load fails; nil for no limit.
  package var timeout: Interval?
  /// The screen of the HUD during an animated load.
  package var screen: [UInt8]
  package var grace: Interval
  package var minimum: Interval
}

/// The options given with one PAGE APPEAR; nil leaves an option unchanged.
package struct PageAppearance: Equatable, Sendable {
  package var refresh: PageLoad.Refresh?
  /// The time after which a load fails; zero for no limit.
  package var timeout: Interval?
  package var screen: [UInt8]?
  package var grace: Interval?
  package var minimum: Interval?
  package var owner: Owner?

  package init() {}

  func apply(to options: inout PageOptions) {
    if let refresh { options.refresh = refresh }
    if let timeout { options.timeout = timeout == .zero ? nil : timeout }
    if let screen { options.screen = screen }
    if let grace { options.grace = grace }
    if let minimum { options.minimum = minimum }
  }
}
