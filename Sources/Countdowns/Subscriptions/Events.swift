/// What kinds of entity there are. Each has a namespace of keys and of channels of its own.
package enum EntityKind: UInt8, CaseIterable, Sendable {
  case countdown, hud, timer, scope
  case throttle, once, gate, debounce
  case nav, page

  package var name: StaticString {
    switch self {
    case .countdown: "countdown"
    case .hud: "hud"
    case .timer: "timer"
    case .scope: "scope"
    case .throttle: "throttle"
    case .once: "once"
    case .gate: "gate"
    case .debounce: "debounce"
    case .nav: "nav"
    case .page: "page"
    }
  }

  /// What channels of this kind begin with.
  package var channelPrefix: [UInt8] { Self.channelPrefixes[Int(rawValue)] }

  private static let channelPrefixes = allCases.map { kind in
    kind.channelStart.withUTF8Buffer { Array($0) }
  }

  /// The same without an array.
  package var channelStart: StaticString {
    switch self {
    case .countdown: "countdown:"
    case .hud: "hud:"
    case .timer: "timer:"
    case .scope: "scope:"
    case .throttle: "throttle:"
    case .once: "once:"
    case .gate: "gate:"
    case .debounce: "debounce:"
    case .nav: "nav:"
    case .page: "page:"
    }
  }

  /// Lends the name of an entity's channel.
  func withChannel<R>(_ key: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> R) -> R {
    let start = channelStart
    let length = start.utf8CodeUnitCount
    return withUnsafeTemporaryAllocation(byteCount: length + key.count, alignment: 1) { channel in
      channel.copyMemory(
        from: UnsafeRawBufferPointer(start: start.utf8Start, count: length))
      UnsafeMutableRawBufferPointer(rebasing: channel[length...]).copyMemory(from: key)
      return body(UnsafeRawBufferPointer(channel))
    }
  }

  /// Whether any of them outlive the daemon.
  package var mayBeKept: Bool {
    switch self {
    case .countdown, .hud, .timer, .throttle, .once, .gate, .debounce: true
    case .scope, .nav, .page: false
    }
  }

  /// The state of what is not there, as snapshots tell it.
  package var stateOfNothing: StaticString {
    switch self {
    case .countdown, .timer, .throttle, .once, .debounce: "idle"
    case .hud: "hidden"
    case .scope, .gate: "closed"
    case .nav: "empty"
    case .page: "unknown"
    }
  }
}

/// Something happened to an entity.
package struct Event: Sendable {
  package enum Subject: Sendable {
    case countdown(CountdownView)
    case hud(HUDView)
    case timer(TimerView)
    case scope(ScopeView)
    case emission(Emission)
    case guarded(GuardView)
    case nav(StackView)
    case page(PageView)
    /// Nothing has this key: in snapshots only.
    case nothing(EntityKind, key: [UInt8], nowUnixMS: Int64)
  }

  package enum Name: StaticStringRepresentable, CaseIterable, Sendable {
    case snapshot
    case started, tick, ready, refused, paused, resumed, retimed, cancelled
    case refunded, expired, locked, passed
    case willAppear, didAppear, updated, touched, willDisappear, didDisappear
    case set, fired
    case accepted, done, pending, run, dismissed, opened, closed, emitted
    case swiping, progress, finished
    case loading, loaded, failed

    /// Whether something is another way since; a tick or a refusal changes nothing.
    package var tellsOfChange: Bool {
      switch self {
      case .snapshot, .tick, .refused, .touched: false
      default: true
      }
    }

    /// Whether the newest alone matters to who does not read as fast as they come.
    package var canBeMerged: Bool { self == .tick || self == .progress }

    package var text: StaticString {
      switch self {
      case .snapshot: "snapshot"
      case .started: "started"
      case .tick: "tick"
      case .ready: "ready"
      case .refused: "refused"
      case .paused: "paused"
      case .resumed: "resumed"
      case .retimed: "retimed"
      case .cancelled: "cancelled"
      case .refunded: "refunded"
      case .expired: "expired"
      case .locked: "locked"
      case .passed: "passed"
      case .willAppear: "will-appear"
      case .didAppear: "did-appear"
      case .updated: "updated"
      case .touched: "touched"
      case .willDisappear: "will-disappear"
      case .didDisappear: "did-disappear"
      case .set: "set"
      case .fired: "fired"
      case .accepted: "accepted"
      case .done: "done"
      case .pending: "pending"
      case .run: "run"
      case .opened: "opened"
      case .closed: "closed"
      case .emitted: "emitted"
      case .swiping: "swiping"
      case .progress: "progress"
      case .finished: "finished"
      case .dismissed: "dismissed"
      case .loading: "loading"
      case .loaded: "loaded"
      case .failed: "failed"
      }
    }
  }

  /// Why, where the name alone does not say it.
  package enum Reason: StaticStringRepresentable, CaseIterable, Sendable {
    case cooldown, window, exhausted, duplicate
    case cancelled, ownerGone, replaced
    case expired, locked, passed
    case closed, parentClosed
    case rate, login
    case leading, quiet, maximumWait, flush
    case transitioning, root, disabled, outsideEdge, direction, notTransitioning, timedOut
    case notLoading, notFailed

    package init(_ reason: Refusal.Reason) {
      switch reason {
      case .cooldown: self = .cooldown
      case .window: self = .window
      case .exhausted: self = .exhausted
      }
    }

    package var text: StaticString {
      switch self {
      case .cooldown: "cooldown"
      case .window: "window"
      case .exhausted: "exhausted"
      case .duplicate: "duplicate"
      case .cancelled: "cancelled"
      case .ownerGone: "owner-gone"
      case .replaced: "replaced"
      case .expired: "expired"
      case .locked: "locked"
      case .passed: "passed"
      case .closed: "closed"
      case .parentClosed: "parent-closed"
      case .rate: "rate"
      case .login: "login"
      case .leading: "leading"
      case .quiet: "quiet"
      case .maximumWait: "max-wait"
      case .flush: "flush"
      case .transitioning: "transitioning"
      case .root: "root"
      case .disabled: "disabled"
      case .outsideEdge: "outside-edge"
      case .direction: "direction"
      case .notTransitioning: "not-transitioning"
      case .timedOut: "timed-out"
      case .notLoading: "not-loading"
      case .notFailed: "not-failed"
      }
    }
  }

  package var name: Name
  package var subject: Subject
  /// The generation it happened to; that of the subject, unless a successor has taken over.
  package var generation: Generation
  package var sequence: Int64
  /// The moment time made it happen, in milliseconds since 1970, and how late that was noticed.
  package var dueUnixMS: Int64?
  package var lateMicroseconds: Int64?
  package var reason: Reason?
  package var end: Presentation.End?
  package var superseded: Generation?
  package var missed: Int64?

  /// What there is to say of any event, whatever it is about.
  struct Head {
    var name: Name
    var generation: Generation
    var sequence: Int64
    var dueUnixMS: Int64?
    var lateMicroseconds: Int64?
    var reason: Reason?
  }

  var head: Head {
    Head(
      name: name, generation: generation, sequence: sequence, dueUnixMS: dueUnixMS,
      lateMicroseconds: lateMicroseconds, reason: reason)
  }
}

extension Event {
  init(_ head: Head, _ subject: Subject) {
    self.init(
      name: head.name, subject: subject, generation: head.generation, sequence: head.sequence,
      dueUnixMS: head.dueUnixMS, lateMicroseconds: head.lateMicroseconds, reason: head.reason)
  }
}

package protocol StaticStringRepresentable {
  var text: StaticString { get }
}

extension Event {
  /// Whether a store keeps what it tells of.
  package var tellsOfDurableChange: Bool {
    guard name.tellsOfChange else { return false }
    switch subject {
    case .countdown(let view): return view.owner == .none
    case .timer(let view): return view.owner == .none
    case .hud(let view): return view.isDurable
    case .guarded(let view): return view.owner == .none
    case .scope, .emission, .nav, .page, .nothing: return false
    }
  }
}

/// An event and who is to get it.
package struct Publication: Sendable {
  package var event: Event
  package var kind: EntityKind
  package var key: [UInt8]
  package var audience: Audience

  package var subscribers: [UInt64] { audience.subscribers }
  package var patterns: [(pattern: [UInt8], subscribers: [UInt64])] { audience.patterns }

  /// As its subscribers name it.
  package var channel: [UInt8] { kind.channelPrefix + key }
}
