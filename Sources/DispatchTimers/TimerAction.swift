/// What a timer does when it is due.
enum TimerAction: Sendable {
  case plain(@Sendable () -> Void)
  case firing(@Sendable (Firing) -> Void)
  case target(TimerTarget)
  case actor(ActorCall)

  /// Whether there is still something to call: false once a weak target has been released.
  var isAlive: Bool {
    switch self {
    case .plain, .firing: true
    case .target(let target): target.isAlive
    case .actor(let call): call.isAlive
    }
  }
}

/// A callback with a target that it holds weakly, except during a call.
class TimerTarget: @unchecked Sendable {
  var isAlive: Bool { preconditionFailure("abstract") }

  /// Calls the callback; false if the target has been released.
  func call(_ firing: Firing) -> Bool { preconditionFailure("abstract") }
}

/// `@unchecked`: nothing is changed after `init`, but for the runtime's own reset of `target`.
final class WeakTarget<Target: AnyObject & Sendable>: TimerTarget, @unchecked Sendable {
  private weak var target: Target?
  private let callback: @Sendable (Target, Firing) -> Void

  init(_ target: Target, _ callback: @escaping @Sendable (Target, Firing) -> Void) {
    self.target = target
    self.callback = callback
  }

  override var isAlive: Bool { target != nil }

  override func call(_ firing: Firing) -> Bool {
    guard let target else { return false }
    callback(target, firing)
    return true
  }
}

/// A callback that runs on an actor. A repeating timer is only armed again after the call, so that
/// calls never pile up while the actor is busy.
class ActorCall: @unchecked Sendable {
  var isAlive: Bool { preconditionFailure("abstract") }

  /// Starts one call: on the actor, it asks `begin` whether the timer has been cancelled meanwhile,
  /// and reports to `end` whether the target is alive.
  func start(
    begin: @escaping @Sendable () -> Firing?, end: @escaping @Sendable (_ isAlive: Bool) -> Void
  ) { preconditionFailure("abstract") }
}

final class WeakActorCall<Target: Actor>: ActorCall, @unchecked Sendable {
  private weak var target: Target?
  private let callback: @Sendable (isolated Target, Firing) -> Void

  init(_ target: Target, _ callback: @escaping @Sendable (isolated Target, Firing) -> Void) {
    self.target = target
    self.callback = callback
  }

  override var isAlive: Bool { target != nil }

  override func start(
    begin: @escaping @Sendable () -> Firing?, end: @escaping @Sendable (_ isAlive: Bool) -> Void
  ) {
    Task { [self] in
      guard let target else { return end(false) }
      await call(target, begin)
      end(true)
    }
  }

  private func call(_ target: isolated Target, _ begin: @Sendable () -> Firing?) {
    if let firing = begin() { callback(target, firing) }
  }
}

final class MainActorCall<Target: AnyObject & Sendable>: ActorCall, @unchecked Sendable {
  private weak var target: Target?
  private let callback: @MainActor @Sendable (Target, Firing) -> Void

  init(_ target: Target, _ callback: @escaping @MainActor @Sendable (Target, Firing) -> Void) {
    self.target = target
    self.callback = callback
  }

  override var isAlive: Bool { target != nil }

  override func start(
    begin: @escaping @Sendable () -> Firing?, end: @escaping @Sendable (_ isAlive: Bool) -> Void
  ) {
    Task { @MainActor [self] in
      guard let target else { return end(false) }
      if let firing = begin() { callback(target, firing) }
      end(true)
    }
  }
}
