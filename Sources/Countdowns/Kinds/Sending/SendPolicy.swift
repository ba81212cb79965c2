/// How often a code may be sent to a key, over which channels, and how long each code is valid.
///
/// Immutable, so all keys that were started with a policy share it; a later policy of the same name
/// does not affect them.
package final class SendPolicy: Sendable, Hashable {
  package let name: String
  package let rules: Rules
  /// What hosts of a fleet do while its servers are unreachable; nil for the fleet's setting. Not
  /// one of the rules, which a started key keeps: the current configuration applies.
  package let unreachable: FleetSettings.Unreachable?
  /// The name of a policy that decides beside this one, and is only counted; nil for none. The
  /// current configuration applies, as above.
  package let shadow: String?
  /// The length of the longest window; zero without windows.
  package let longest: Interval

  /// Throws the problems of the rules; see `Rules.problems`.
  package init(
    name: String, _ rules: Rules, unreachable: FleetSettings.Unreachable? = nil,
    shadow: String? = nil
  ) throws(Invalid) {
    let problems = rules.problems
    guard problems.isEmpty, Self.isName(name) else { throw Invalid(problems: problems) }
    self.name = name
    self.rules = rules
    self.unreachable = unreachable
    self.shadow = shadow
    longest = rules.windows.map(\.length).max() ?? .zero
  }

  /// The same policy without a shadow.
  var withoutShadow: SendPolicy {
    (shadow == nil ? nil : try? SendPolicy(name: name, rules, unreachable: unreachable)) ?? self
  }

  package struct Invalid: Error, Equatable { package let problems: [Problem] }

  package enum OnResend: String, CaseIterable, Sendable {
    /// Earlier codes stay valid until their own expiry.
    case keep
    /// Only the newest code is valid.
    case replace
  }

  /// At most `limit` sends within any period of `length`.
  package struct Window: Hashable, Sendable {
    package var limit: Int
    package var length: Interval

    package init(limit: Int, length: Interval) {
      self.limit = limit
      self.length = length
    }

    /// The form in the configuration: `5/10m`.
    package var text: String { "\(limit)/\(length.text)" }
  }

  package struct Rules: Hashable, Sendable {
    /// The number of steps of each cooldown, if there is no ladder; nil means 60.
    package var count: UInt32?
    package var every = Interval.seconds(1)
    /// The cooldown after the first send, the second, …; the last one repeats.
    package var ladder: [Interval] = []
    package var windows: [Window] = []
    /// The channel of the first send, the second, …; then none until sends start over.
    package var channels: [String] = []
    /// How long a code is valid.
    package var validity: Interval?
    /// How often a code may be tried.
    package var attempts: UInt32?
    package var onResend = OnResend.keep
    /// How long nothing is sent after a code was tried too often: the first time since the steps
    /// started over, the second, …; the last one repeats.
    package var lockout: [Interval] = []
    /// How many attempts a key has over all its codes.
    package var guesses: Window?
    /// How many sends are given back.
    package var refunds: Window?
    /// The names of the limits that each send is charged to as well.
    package var limits: [String] = []
    /// The names of the limits that each attempt at a code is charged to.
    package var attemptLimits: [String] = []
    package var title: [UInt8]?
    package var readyTitle: [UInt8]?

    package init() {}

    /// The names of the limits that a request is charged to.
    func limits(of request: LimitedRequest) -> [String] {
      switch request {
      case .send: limits
      case .attempt: attemptLimits
      }
    }
  }

  /// What limits are charged for.
  package enum LimitedRequest: Sendable { case send, attempt }

  package var longestCooldown: Interval {
    rules.ladder.max() ?? cooldown(after: 1)
  }

  /// Returns the cooldown after the `number`th send since sends started over, from 1.
  package func cooldown(after number: UInt32) -> Interval {
    guard let last = rules.ladder.last else { return rules.every * Int64(rules.plainCount) }
    let index = Int(max(number, 1)) - 1
    return index < rules.ladder.count ? rules.ladder[index] : last
  }

  /// Returns the channels of the newest of so many sends since they started over, and of the next
  /// one; nil where there is none.
  func channels(after sends: UInt32) -> (last: String?, next: String?) {
    let (channels, count) = (rules.channels, Int(sends))
    return (
      count > 0 && count <= channels.count ? channels[count - 1] : nil,
      count < channels.count ? channels[count] : nil
    )
  }

  /// Returns how long nothing is sent after a code was locked, when so many were locked before; nil
  /// without lockouts.
  package func lockout(after locks: UInt32) -> Interval? {
    guard let last = rules.lockout.last else { return nil }
    return Int(locks) < rules.lockout.count ? rules.lockout[Int(locks)] : last
  }

  /// How often a code may be tried.
  var attemptLimit: UInt32 { rules.attempts ?? .max }

  /// Whether it has anything that only newer versions of records have.
  var isExtended: Bool { !rules.limits.isEmpty || !rules.lockout.isEmpty }
  var isBounded: Bool {
    rules.guesses != nil || rules.refunds != nil || !rules.attemptLimits.isEmpty
  }

  /// Returns the same cooldown as the plan of a countdown.
  package func plan(after number: UInt32, firesAtOnce: Bool) -> Countdown.Plan {
    let count = cooldown(after: number).microseconds / rules.every.microseconds
    guard
      let plan = Countdown.Plan(
        count: UInt32(count), every: rules.every, firesAtOnce: firesAtOnce)
    else { preconditionFailure("a checked policy has a ladder of possible countdowns") }
    return plan
  }

  /// Returns whether a policy or channel can have this name: 1 to 64 of letters, digits and `_.-`.
  package static func isName(_ text: String) -> Bool {
    (1...64).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."),
          UInt8(ascii: "-"):
          true
        default: false
        }
      }
  }

  package static func == (a: SendPolicy, b: SendPolicy) -> Bool {
    a === b || (a.name == b.name && a.rules == b.rules)
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
