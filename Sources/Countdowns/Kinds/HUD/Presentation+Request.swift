extension Presentation {
  package enum Kind: String, CaseIterable, Sendable {
    case loading, progress, info, success, error

    /// Whether it dismisses itself, after the time that its text takes to read.
    package var isMessage: Bool {
      switch self {
      case .info, .success, .error: true
      case .loading, .progress: false
      }
    }

    /// Whether it stays until it is released.
    package var takesHold: Bool { !isMessage }
  }

  /// What covers the screen, by rising strictness. All but `none` block interaction.
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
    /// From its beginning, as in MBProgressHUD.
    case appear
    /// From the SHOW.
    case request
    /// From the dismissal.
    case stop
  }

  /// The effect of a dismissal before the grace is over.
  package enum Early: String, CaseIterable, Sendable {
    /// It is never shown.
    case skip
    /// It is shown at once, for MIN.
    case show
  }

  /// Why a presentation has ended. (A superseding generation reports that itself.)
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
    /// The MIN of the duration rule of messages.
    package var messageMinimum: Interval
    /// Whether it survives restarts.
    package var isDurable = false
    /// Of the request that it is shown for.
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

    /// How long it stays at most, counted from did-appear; nil without a limit.
    ///
    /// A message stays min(max(0.06 s · n + 0.5 s, MIN), MAX), n being the UTF-16 length of its
    /// text. Source: SVProgressHUD, `displayDurationForString:`.
    package var longest: Interval? {
      guard kind.isMessage else { return maximum }
      let reading = Interval(microseconds: 60_000 * utf16Length(status ?? []) + 500_000)
      let duration = max(reading, messageMinimum)
      return maximum.map { min($0, duration) } ?? duration
    }
  }
}

/// How many UTF-16 code units UTF-8 text takes: one a character, two for those of four bytes.
func utf16Length(_ utf8: [UInt8]) -> Int64 {
  utf8.reduce(0) { length, byte in
    switch byte {
    case 0b1000_0000...0b1011_1111: length
    case 0b1111_0000...: length + 2
    default: length + 1
    }
  }
}
