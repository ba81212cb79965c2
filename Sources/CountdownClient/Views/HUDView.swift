import Wire

/// The status of a HUD; its `key` is the screen.
public struct HUDView: EntityView {
  public static let kind = CountdownEvent.Kind.hud

  public enum State: String, Sendable { case hidden, waiting, appearing, visible, disappearing }

  /// HUDs of different levels lie on one screen at the same time.
  public enum Level: String, Sendable { case normal, statusbar, alert }

  public enum Kind: String, Sendable { case loading, progress, info, success, error }

  /// What covers the screen below the HUD.
  public enum Mask: String, Sendable { case none, clear, black, gradient, custom }

  /// One show of `loading` or `progress`, with what it asked for.
  public struct Hold: Sendable, Hashable, FieldValue {
    /// All fields as the daemon sent them, a map.
    public let reply: RESPValue

    /// Names the hold for `popHUD`, `setHUDProgress` and `setHUDStatus`.
    public var generation: Int { reply.field("generation") ?? 0 }
    public var kind: Kind? { reply.choice("kind") }
    public var status: String? { reply.field("status") }
    public var mask: Mask? { reply.choice("mask") }
    public var fraction: Double? { reply.field("fraction") }
    /// The path of the request that it was taken for.
    public var request: String? { reply.field("request") }
    public var grace: Duration? { reply.field("grace_ms") }
    /// It ends this long after it is visible; nil: when it is popped.
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
  /// The part that is done, from 0 to 1; nil unless it was set.
  public var fraction: Double? { fields["fraction"] }
  /// What the screen waits for, oldest first: each show that has not been popped.
  public var holds: [Hold] { fields["holds"] ?? [] }
  /// Whether a dismissal is held back, delayed or under way.
  public var isDismissing: Bool { fields["dismissing"] ?? false }
  public var isPaused: Bool { fields["paused"] ?? false }
  /// The time until it begins to disappear, as far as is known now.
  public var remainingTime: Duration? { fields["remaining_ms"] }
  /// Why it is over: `dismissed`, `timed-out`, `tapped`, …; nil while it is not.
  public var end: String? { fields["end"] }
  /// Whether it survives a restart of the daemon.
  public var isDurable: Bool { fields["durable"] ?? false }
}

/// Why a HUD is as it is, what it waits for, and who holds it.
public struct HUDExplanation: EntityView {
  public typealias State = HUDView.State

  public static let kind = CountdownEvent.Kind.hud

  /// What keeps a HUD in its state.
  public enum Reason: String, Sendable {
    case nothing, paused, grace
    case fadeIn = "fade-in"
    case delay, dismissed, min, message, max, held
    case fadeOut = "fade-out"
  }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  /// All of it in one sentence: `visible: 430 ms of MIN left; held by connection 5 (2)`.
  public var why: String { fields["why"] ?? "" }
  /// What it waits for, the most important first.
  public var reasons: [Reason] {
    (fields["reasons"] ?? [String]()).compactMap(Reason.init(rawValue:))
  }
  /// Who holds it, and how many holds each has, in words.
  public var holders: [String] { fields["holders"] ?? [] }
  public var mask: HUDView.Mask? { fields["mask"] }
  /// The path of the request that the mask is for.
  public var blockedBy: String? { fields["blocked_by"] }
  public var level: HUDView.Level? { fields["level"] }
}

/// The mask that a request gets by the daemon's rules.
public struct HUDMaskRule: Sendable, Hashable {
  /// What the rules compare: the path from the last `/api/` on.
  public let request: String
  public let mask: HUDView.Mask
  /// The path or the word that blocks it; nil if nothing does.
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
