import Wire

/// The status of a HUD; its `key` is the screen.
public struct HUDView: EntityView {
  public static let kind = CountdownEvent.Kind.hud

  public enum State: String, Sendable { case hidden, waiting, appearing, visible, disappearing }

  /// The level of a HUD. A screen can have one HUD on each level.
  public enum Level: String, Sendable { case normal, statusbar, alert }

  public enum Kind: String, Sendable { case loading, progress, info, success, error }

  /// The cover of the screen below the HUD.
  public enum Mask: String, Sendable { case none, clear, black, gradient, custom }

  /// A hold on the HUD: one show of `loading` or `progress` with its options.
  public struct Hold: Sendable, Hashable, FieldValue {
    /// All fields as the daemon sent them, as a map.
    public let reply: RESPValue

    /// Identifies the hold in `popHUD`, `setHUDProgress` and `setHUDStatus`.
    public var generation: Int { reply.field("generation") ?? 0 }
    public var kind: Kind? { reply.choice("kind") }
    public var status: String? { reply.field("status") }
    public var mask: Mask? { reply.choice("mask") }
    public var fraction: Double? { reply.field("fraction") }
    /// The path of the request that the hold is for.
    public var request: String? { reply.field("request") }
    public var grace: Duration? { reply.field("grace_ms") }
    /// How long the hold lasts once the HUD is visible; nil: until it is popped.
    public var maximum: Duration? { reply.field("max_ms") }
    public var owner: String? { reply.field("owner") }
    public var isDurable: Bool { reply.field("durable") ?? false }

    static func value(of field: RESPValue) -> Hold? { Hold(reply: field) }
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  public var level: Level? { fields["level"] }
  public var kind: Kind? { fields["kind"] }
  /// The text.
  public var status: String? { fields["status"] }
  public var mask: Mask? { fields["mask"] }
  /// The completed fraction, from 0 to 1; nil unless it was set.
  public var fraction: Double? { fields["fraction"] }
  /// The holds, oldest first: each show that has not been popped.
  public var holds: [Hold] { fields["holds"] ?? [] }
  /// Whether a dismissal is held back, delayed or in progress.
  public var isDismissing: Bool { fields["dismissing"] ?? false }
  public var isPaused: Bool { fields["paused"] ?? false }
  /// The time until the HUD begins to disappear, as far as known.
  public var remainingTime: Duration? { fields["remaining_ms"] }
  /// Why the HUD has ended: `dismissed`, `timed-out`, `tapped`, …; nil until then.
  public var end: String? { fields["end"] }
  /// Whether any part of the HUD survives a restart of the daemon.
  public var isDurable: Bool { fields["durable"] ?? false }
}

/// An explanation of the state of a HUD, what it waits for, and who holds it.
public struct HUDExplanation: EntityView {
  public typealias State = HUDView.State

  public static let kind = CountdownEvent.Kind.hud

  /// A reason for the state of a HUD.
  public enum Reason: String, Sendable {
    case nothing, paused, grace
    case fadeIn = "fade-in"
    case delay, dismissed, min, message, max, held
    case fadeOut = "fade-out"
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// The explanation in one sentence: `visible: 430 ms of MIN left; held by connection 5 (2)`.
  public var why: String { fields["why"] ?? "" }
  /// The reasons for the state, the most important first.
  public var reasons: [Reason] {
    (fields["reasons"] ?? [String]()).compactMap(Reason.init(rawValue:))
  }
  /// The owners of the holds, each with its number of holds, in words.
  public var holders: [String] { fields["holders"] ?? [] }
  public var mask: HUDView.Mask? { fields["mask"] }
  /// The path of the request that the mask is for.
  public var blockedBy: String? { fields["blocked_by"] }
  public var level: HUDView.Level? { fields["level"] }
}

/// The mask that the daemon's rules pick for a request.
public struct HUDMaskRule: Sendable, Hashable {
  /// The path that the rules compare: from the last `/api/` on.
  public let request: String
  public let mask: HUDView.Mask
  /// The path or word of the rule that blocks; nil if none does.
  public let rule: String?

  /// Reads the reply to `HUD MASK`.
  public init(_ reply: RESPValue) throws(CountdownClientError) {
    guard let request: String = reply.field("request"),
      let mask: HUDView.Mask = reply.choice("mask")
    else { throw .protocolViolation("HUD MASK replied without request or mask") }
    self.request = request
    self.mask = mask
    rule = reply.field("rule")
  }
}
