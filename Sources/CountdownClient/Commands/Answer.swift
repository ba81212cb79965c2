import Wire

/// What the daemon decided about a request.
public enum Decision: Sendable, Hashable {
  /// Do what was asked for.
  case accepted
  /// It was accepted before, with the same token or for the same generation: it was or is being
  /// done.
  case repeated
  /// Do not. `retryAfter` is the time until it may be accepted; zero if time does not help, as with
  /// a code that has no attempts left.
  case refused(reason: Reason, retryAfter: Duration)
}

/// The daemon's answer to a request that it can refuse: its decision, and the entity after it.
///
///     let answer = try await client.countdown.start("+4512345678", policy: "phone", token: request)
///     switch answer.decision {
///     // Whoever notes the generation first sends: the first one to be accepted may have failed
///     // before it did.
///     case .accepted, .repeated: if try await note(answer.generation) { try await sendCode() }
///     case .refused(_, let retryAfter): print("try again in \(retryAfter)")
///     }
///
/// The properties of the view are those of the answer, too.
@dynamicMemberLookup
public struct Answer<View: EntityView>: Sendable, Hashable {
  public let view: View
  /// Whether the same request may be accepted later.
  let timeHelps: Bool

  init(view: View, timeHelps: Bool = true) {
    self.view = view
    self.timeHelps = timeHelps
  }

  public var decision: Decision {
    guard view.accepted == true else {
      return .refused(
        reason: view.fields["reason"] ?? "unknown",
        retryAfter: timeHelps ? view.fields["retry_after_ms"] ?? .zero : .zero)
    }
    return view.fields["reason"] == Reason.repeated ? .repeated : .accepted
  }

  /// Whether this host alone has decided, as the servers of its fleet could not be reached. Other
  /// hosts may accept as well.
  public var isDegraded: Bool { view.fields["reason"] == Reason.degraded }

  public subscript<Value>(dynamicMember path: KeyPath<View, Value>) -> Value {
    view[keyPath: path]
  }
}

/// A word of the protocol. A newer daemon may send words that this client does not know.
public protocol ProtocolWord: RawRepresentable<String>, Sendable, Hashable,
  ExpressibleByStringLiteral, CustomStringConvertible
{
  init(rawValue: String)
}

extension ProtocolWord {
  public init(stringLiteral value: String) { self.init(rawValue: value) }
  public var description: String { rawValue }
}

/// Why a request was refused, or accepted without effect, or why an event happened.
public struct Reason: ProtocolWord {
  public let rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
}

/// The first word of an error reply.
public struct ErrorCode: ProtocolWord {
  public let rawValue: String
  public init(rawValue: String) { self.rawValue = rawValue }
}
