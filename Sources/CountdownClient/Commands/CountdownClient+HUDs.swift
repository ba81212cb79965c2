/// HUDs that neither flicker nor hang.
extension CountdownClient {
  /// The options of `showHUD`; nil leaves the choice to the daemon.
  public struct HUDOptions: Sendable, Hashable {
    /// The moment from which `minimum` counts.
    public enum MinimumFrom: String, Sendable { case visible, appear, request, stop }

    /// The effect of a dismissal within `grace`.
    public enum Early: String, Sendable { case skip, show }

    public var kind: HUDView.Kind?
    public var status: String?
    /// The time before the HUD is shown.
    public var grace: Duration?
    /// The minimum time that the HUD is shown; an earlier dismissal is held until then.
    public var minimum: Duration?
    /// The time after which the hold ends; the last hold ends the HUD.
    public var maximum: Duration?
    public var fadeIn: Duration?
    public var fadeOut: Duration?
    public var minimumFrom: MinimumFrom?
    public var early: Early?
    public var mask: HUDView.Mask?
    public var level: HUDView.Level?
    /// The request that the HUD is shown for; it determines the mask unless `mask` is set.
    public var request: String?
    public var owner = Owner.nobody
    /// Whether the hold or message survives a restart of the daemon; only without an owner.
    public var isDurable = false

    public init() {}

    var words: Command.Options {
      [
        "KIND": kind?.rawValue, "STATUS": status, "GRACE": grace, "MIN": minimum, "MAX": maximum,
        "FADEIN": fadeIn, "FADEOUT": fadeOut, "MINFROM": minimumFrom?.rawValue,
        "EARLY": early?.rawValue, "MASK": mask?.rawValue, "LEVEL": level?.rawValue,
        "REQUEST": request, "OWNER": owner.option, "DURABLE": isDurable,
      ]
    }
  }

  /// Shows a HUD on a screen. Kinds `loading` and `progress` add a hold to the HUD of the level; a
  /// message replaces all holds.
  @discardableResult
  public func showHUD(
    _ screen: String, _ options: HUDOptions = .init()
  ) async throws -> HUDView {
    try await view("HUD", "SHOW", screen, options: options.words)
  }

  /// Sets the completed fraction, from 0 to 1, and the text.
  @discardableResult
  public func setHUDProgress(
    _ screen: String, fraction: Double, status: String? = nil, level: HUDView.Level? = nil,
    generation: Int? = nil
  ) async throws -> HUDView {
    try await view(
      "HUD", "PROGRESS", screen, fraction,
      options: ["STATUS": status, "LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Sets the text.
  @discardableResult
  public func setHUDStatus(
    _ screen: String, _ status: String, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    try await view(
      "HUD", "STATUS", screen, status,
      options: ["LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Dismisses a HUD, at the earliest after its minimum time; nil if the screen has none.
  @discardableResult
  public func dismissHUD(
    _ screen: String, delay: Duration? = nil, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView? {
    try await viewIfAny(
      "HUD", "DISMISS", screen,
      options: ["DELAY": delay, "LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Releases one hold; the last one dismisses the HUD. Nil if the screen has none.
  ///
  /// - Parameters:
  ///   - request: the request whose hold to release, if it has one.
  ///   - generation: the generation of the show whose hold to release.
  @discardableResult
  public func popHUD(
    _ screen: String, request: String? = nil, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView? {
    try await viewIfAny(
      "HUD", "POP", screen,
      options: ["REQUEST": request, "LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Reports a tap, `inside` the HUD or beside it.
  @discardableResult
  public func tapHUD(
    _ screen: String, inside: Bool = false, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    try await view(
      "HUD", "TAP", screen,
      options: ["INSIDE": inside, "LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Pauses all times of a HUD; idempotent.
  @discardableResult
  public func pauseHUD(
    _ screen: String, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    try await view(
      "HUD", "PAUSE", screen, options: ["LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Continues the times of a paused HUD; idempotent.
  @discardableResult
  public func resumeHUD(
    _ screen: String, level: HUDView.Level? = nil, generation: Int? = nil
  ) async throws -> HUDView {
    try await view(
      "HUD", "RESUME", screen, options: ["LEVEL": level?.rawValue, "GENERATION": generation])
  }

  /// Explains in words the state of a HUD, what it waits for, and who holds it.
  public func explainHUD(
    _ screen: String, level: HUDView.Level? = nil
  ) async throws -> HUDExplanation {
    try await view("HUD", "WHY", screen, options: ["LEVEL": level?.rawValue])
  }

  /// Returns the mask that `showHUD` would pick for a request, without showing anything.
  public func hudMask(
    request: String
  ) async throws -> HUDMaskRule {
    try HUDMaskRule(try await send("HUD", "MASK", request))
  }

  /// Returns the HUD of a level, by default the front one; nil if the screen has none.
  public func hud(
    _ screen: String, level: HUDView.Level? = nil
  ) async throws -> HUDView? {
    try await viewIfAny("HUD", "GET", screen, options: ["LEVEL": level?.rawValue])
  }

  /// Returns a page of HUDs, as `countdowns(cursor:matching:owner:limit:)` does.
  public func huds(
    cursor: String = "0", matching: String? = nil, owner: String? = nil, limit: Int? = nil
  ) async throws -> Page<HUDView> {
    try await page("HUD", cursor: cursor, matching: matching, owner: owner, limit: limit)
  }
}
