extension Presentation {
  package enum Kind: String, CaseIterable, Sendable {
    case loading, progress, info, success, error

    /// Whether the HUD dismisses itself after the time that its text takes to read.
    package var isMessage: Bool {
      switch self {
      case .info, .success, .error: true
      case .loading, .progress: false
      }
    }

    /// Whether a SHOW takes a hold, so that the HUD stays until all holds are released.
    package var takesHold: Bool { !isMessage }
  }

  /// How the screen is covered, in order of strictness. All masks but `none` block interaction.
  package enum Mask: String, CaseIterable, Comparable, Sendable {
    case none, clear, black, gradient, custom

    package static func < (a: Mask, b: Mask) -> Bool { a.strictness < b.strictness }

    private var strictness: Int {
      switch self {
      case .none: 0
      case .clear: 1
      case .black: 2
      case .gradient: 3
      case .custom: 4
      }
    }
  }

  /// When MIN begins.
  package enum MinimumFrom: String, CaseIterable, Sendable {
    /// From the end of the fade-in.
    case visible
    /// From the beginning of the fade-in, as in MBProgressHUD.
    case appear
    /// From the SHOW.
    case request
    /// From the dismissal.
    case stop
  }

  /// The effect of a dismissal during the grace period.
  package enum Early: String, CaseIterable, Sendable {
    /// The HUD is never shown.
    case skip
    /// The HUD is shown at once, for MIN.
    case show
  }

  /// Why a presentation has ended, other than by a superseding SHOW, which reports that itself.
  package enum End: String, Sendable {
    case dismissed
    case timedOut = "timed-out"
    case ownerGone = "owner-gone"
    case tapped
    case neverShown = "never-shown"
  }

  /// The options of one SHOW.
  package struct Request: Equatable, Sendable {
    package var kind: Kind
    package var status: [UInt8]?
    package var grace: Interval
    package var minimum: Interval
    package var maximum: Interval?
    package var fadeIn: Interval
    package var fadeOut: Interval
    package var minimumFrom: MinimumFrom
    package var early: Early
    package var mask: Mask
    /// The minimum display time of a message.
    package var messageMinimum: Interval
    /// Whether the hold or message survives restarts.
    package var isDurable = false
    /// The path of the request for which the HUD is shown.
    package var path: [UInt8]?

    package init(
      kind: Kind = .loading, status: [UInt8]? = nil, grace: Interval = .zero,
      minimum: Interval = .zero, maximum: Interval? = nil,
      fadeIn: Interval = .milliseconds(150), fadeOut: Interval = .milliseconds(150),
      minimumFrom: MinimumFrom = .visible, early: Early = .skip, mask: Mask = .none,
      messageMinimum: Interval = .seconds(5)
    ) {
      self.kind = kind
      self.status = status
      self.grace = grace
      self.minimum = minimum
      self.maximum = maximum
      self.fadeIn = fadeIn
      self.fadeOut = fadeOut
      self.minimumFrom = minimumFrom
      self.early = early
      self.mask = mask
      self.messageMinimum = messageMinimum
    }

    /// The maximum display time, counted from did-appear or a later SHOW; nil without a limit.
    ///
    /// A message stays min(max(0.06 s · n + 0.5 s, MIN), MAX), where n is the UTF-16 length of its
    /// text. Source: SVProgressHUD, `displayDurationForString:`.
    package var longest: Interval? {
      guard kind.isMessage else { return maximum }
      let reading = Interval(microseconds: 60_000 * utf16Length(status ?? []) + 500_000)
      let duration = max(reading, messageMinimum)
      return maximum.map { min($0, duration) } ?? duration
    }
  }
}

/// Returns the length of UTF-8 text in UTF-16 code units: two for a four-byte character, else one.
func utf16Length(_ utf8: [UInt8]) -> Int64 {
  utf8.reduce(0) { length, byte in
    switch byte {
    case 0b1000_0000...0b1011_1111: length
    case 0b1111_0000...: length + 2
    default: length + 1
    }
  }
}
