/// The status of a HUD; its `key` is the screen.
public struct HUDView: EntityView {
  public static let kind = CountdownEvent.Kind.hud

  public enum State: String, Sendable { case hidden, waiting, appearing, visible, disappearing }

  /// HUDs of different levels lie on one screen at the same time.
  public enum Level: String, Sendable { case normal, statusbar, alert }

  public enum Kind: String, Sendable { case loading, progress, info, success, error }

  /// What covers the screen below the HUD.
  public enum Mask: String, Sendable { case none, clear, black, gradient, custom }

  public let fields: ViewFields<State>

  public init(fields: ViewFields<State>) { self.fields = fields }

  public var level: Level? { fields["level"] }
  public var kind: Kind? { fields["kind"] }
  /// The text.
  public var status: String? { fields["status"] }
  public var mask: Mask? { fields["mask"] }
  /// The part that is done, from 0 to 1; nil unless it was set.
  public var fraction: Double? { fields["fraction"] }
  /// The hold count: how many shows have not been popped.
  public var holds: Int { fields["leases"] ?? 0 }
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
