import TimerWheel

struct PageEntity: KeyedEntity {
  let key: [UInt8]
  var machine: PageLoad
  /// Of the newest load.
  var generation: Generation
  var owner: Owner
  let uid: UInt32
  var options: PageOptions
  /// Whether it is the page of a navigation stack: it appears and disappears with that, and ends
  /// with its scope, which is its owner.
  var isBound = false
  /// As which it wants the HUD of its screen; nil while it does not.
  var lease: OwnerName?
  var alarm: TimerWheel.Token?
}

/// The options of PAGE APPEAR, which later loads of the page use too.
package struct PageOptions: Equatable, Sendable {
  package var refresh = PageLoad.Refresh.always
  /// A load fails if it takes longer; nil: it may take forever.
  package var timeout: Interval?
  /// Where the HUD is shown during an animated load.
  package var screen: [UInt8]
  package var grace: Interval
  package var minimum: Interval
}

/// The options of one PAGE APPEAR; the others stay.
package struct PageAppearance: Equatable, Sendable {
  package var refresh: PageLoad.Refresh?
  /// Zero: forever.
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

extension Event.Reason {
  package init(_ refusal: PageLoad.Refusal) {
    switch refusal {
    case .notLoading: self = .notLoading
    case .notFailed: self = .notFailed
    case .loading: self = .loading
    }
  }
}
