/// HUDs that neither flicker nor hang. Every call throws `CountdownClientError`.
extension CountdownClient {
  /// What `showHUD` can be told; nil leaves a choice to the daemon.
  public struct HUDOptions: Sendable, Hashable {
    /// `loading`, `progress`, `info`, `success` or `error`.
    public var kind: String?
    public var status: String?
    /// Shown only if still wanted after this.
    public var grace: Duration?
    /// A dismissal before this is held until then.
    public var minimum: Duration?
    /// Dismissed by itself after this.
    public var maximum: Duration?
    public var fadeIn: Duration?
    public var fadeOut: Duration?
    /// `visible`, `request` or `stop`: from when `minimum` counts.
    public var minimumFrom: String?
    /// `skip` or `show`: what a dismissal within `grace` does.
    public var early: String?
    /// `none`, `clear`, `black`, `gradient` or `custom`.
    public var mask: String?
    /// `normal`, `statusbar` or `alert`.
    public var level: String?
    /// The request it is shown for: picks the mask.
    public var request: String?
    public var owner = Owner.none
    /// Whether it outlives the daemon; with `owner` none only.
    public var isDurable = false

    public init() {}
  }

  /// Shows a HUD on a screen; supersedes the one on the same level.
  @discardableResult
  public func showHUD(_ screen: String, _ options: HUDOptions = .init()) async throws -> HUDView {
    var command = CommandBuilder("HUD", "SHOW", screen)
    command.option("KIND", options.kind)
    command.option("STATUS", options.status)
    command.option("GRACE", options.grace)
    command.option("MIN", options.minimum)
    command.option("MAX", options.maximum)
    command.option("FADEIN", options.fadeIn)
    command.option("FADEOUT", options.fadeOut)
    command.option("MINFROM", options.minimumFrom)
    command.option("EARLY", options.early)
    command.option("MASK", options.mask)
    command.option("LEVEL", options.level)
    command.option("REQUEST", options.request)
    command.owner(options.owner)
    command.flag("DURABLE", options.isDurable)
    return try await view(command) { try HUDView($0) }
  }

  /// Sets the fraction done, 0 to 1.
  @discardableResult
  public func progressHUD(
    _ screen: String, fraction: Double, status: String? = nil, level: String? = nil,
    generation: Int? = nil
  ) async throws -> HUDView {
    var command = CommandBuilder("HUD", "PROGRESS", screen, Self.decimal(fraction))
    command.option("STATUS", status)
    command.option("LEVEL", level)
    command.option("GENERATION", generation)
    return try await view(command) { try HUDView($0) }
  }

  /// Sets the text.
  @discardableResult
  public func statusHUD(
    _ screen: String, _ status: String, level: String? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    var command = CommandBuilder("HUD", "STATUS", screen, status)
    command.option("LEVEL", level)
    command.option("GENERATION", generation)
    return try await view(command) { try HUDView($0) }
  }

  /// Hides it, not before its minimum time; nil when nothing was shown.
  @discardableResult
  public func dismissHUD(
    _ screen: String, delay: Duration? = nil, level: String? = nil, generation: Int? = nil
  ) async throws -> HUDView? {
    var command = CommandBuilder("HUD", "DISMISS", screen)
    command.option("DELAY", delay)
    command.option("LEVEL", level)
    command.option("GENERATION", generation)
    return try await viewIfAny(command) { try HUDView($0) }
  }

  /// Gives one lease back, the last one dismisses; nil when nothing was shown.
  @discardableResult
  public func popHUD(
    _ screen: String, level: String? = nil, generation: Int? = nil
  ) async throws -> HUDView? {
    var command = CommandBuilder("HUD", "POP", screen)
    command.option("LEVEL", level)
    command.option("GENERATION", generation)
    return try await viewIfAny(command) { try HUDView($0) }
  }

  /// Tells of a tap, `inside` the HUD or beside it.
  @discardableResult
  public func tapHUD(
    _ screen: String, inside: Bool = false, level: String? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    var command = CommandBuilder("HUD", "TAP", screen)
    command.flag("INSIDE", inside)
    command.option("LEVEL", level)
    command.option("GENERATION", generation)
    return try await view(command) { try HUDView($0) }
  }

  /// How it stands; nil when nothing is shown.
  public func hud(_ screen: String, level: String? = nil) async throws -> HUDView? {
    var command = CommandBuilder("HUD", "GET", screen)
    command.option("LEVEL", level)
    return try await viewIfAny(command) { try HUDView($0) }
  }

  /// A page of HUDs: see `countdowns(cursor:matching:owner:limit:)`.
  public func huds(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<HUDView> {
    try await page("HUD", cursor: cursor, matching: matching, owner: owner, limit: limit) {
      try HUDView($0)
    }
  }

  /// Without an exponent, which the protocol does not know.
  private static func decimal(_ fraction: Double) -> String {
    guard fraction > 0, fraction < 1e-4 else { return String(fraction) }
    return "0.0001"
  }
}
