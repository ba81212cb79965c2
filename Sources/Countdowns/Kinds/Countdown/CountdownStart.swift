/// The arguments of START beyond the key.
package struct CountdownStart: Sendable {
  /// The plan; with a policy, only its `firesAtOnce` is used.
  package var plan: Countdown.Plan
  private var rest = OptionalDetails<Details>()

  private struct Details {
    var policy: SendPolicy?
    /// The keys that START gives for limits.
    var limits: [[UInt8]] = []
    var owner = Owner.none
    var title: [UInt8]?
    var readyTitle: [UInt8]?
    var annotations = Annotations()
    var token: [UInt8]?
  }

  private var details: Details {
    get { rest.value ?? Details() }
    set { rest.value = newValue }
  }

  package var policy: SendPolicy? {
    get { rest.read { $0.policy } ?? nil }
    set { if newValue != nil || !isPlain { details.policy = newValue } }
  }
  package var limits: [[UInt8]] {
    get { rest.read { $0.limits } ?? [] }
    set { if !newValue.isEmpty || !isPlain { details.limits = newValue } }
  }
  package var owner: Owner {
    get { rest.read { $0.owner } ?? .none }
    set { if newValue != .none || !isPlain { details.owner = newValue } }
  }
  package var title: [UInt8]? {
    get { rest.read { $0.title } ?? nil }
    set { if newValue != nil || !isPlain { details.title = newValue } }
  }
  package var readyTitle: [UInt8]? {
    get { rest.read { $0.readyTitle } ?? nil }
    set { if newValue != nil || !isPlain { details.readyTitle = newValue } }
  }
  package var annotations: Annotations {
    get { rest.read { $0.annotations } ?? Annotations() }
    set { if newValue != Annotations() || !isPlain { details.annotations = newValue } }
  }
  package var token: [UInt8]? {
    get { rest.read { $0.token } ?? nil }
    set { if newValue != nil || !isPlain { details.token = newValue } }
  }

  /// Whether there is nothing but a plan.
  var isPlain: Bool { rest.isNone }

  package init(_ plan: Countdown.Plan) { self.plan = plan }
}

/// The answer to "may I send a code now?".
package enum StartDecision: Equatable, Sendable {
  case accepted
  /// The send with this token was accepted before.
  case acceptedBefore
  case refused(Reason)

  package var isAccepted: Bool {
    switch self {
    case .accepted, .acceptedBefore: true
    case .refused: false
    }
  }

  package var reason: Reason? {
    switch self {
    case .accepted: nil
    case .acceptedBefore: .repeated
    case .refused(let reason): reason
    }
  }
}

/// The answer to a start, with the data for its reply.
package struct StartAnswer {
  package var decision: StartDecision
  var index: UInt32
  /// Whether it is known that its limits have room for the next start.
  var hasRoom = false
  /// The generation of the send that was accepted before.
  var sent: Generation?
  /// Why a start is refused, and when one is accepted next, if that is known already.
  var refusal: Refusal?
  /// The fields of a `BRIEF` reply, if they are known already.
  var brief: Brief?
  /// The view of a countdown that is forgotten already, or that was never there.
  var last: Forgotten?

  struct Brief {
    var generation: Generation
    var retryAfterMS: Int64
  }

  /// A class, so that answers stay small: very few have one.
  final class Forgotten {
    let view: CountdownView
    init(_ view: CountdownView) { self.view = view }
  }
}
