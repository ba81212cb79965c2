/// The rules belong to the state: a started key keeps them even if the configuration has changed by
/// the time the daemon starts again.
extension Sending {
  static var blank: Sending { Sending(.blank) }

  func fields<Visitor: StateVisitor>(_ visitor: inout Visitor) {
    visitor.field("in_force", &isInForce)
    record.fields(&visitor)
    var (name, rules) = (policy.name, policy.rules)
    visitor.text("policy", &name)
    rules.fields(&visitor)
    if visitor.format > EntityRecord.plain { newFields(&visitor, &rules) }
    guard Visitor.isReading else { return }
    if let read = try? SendPolicy(name: name, rules) { policy = read } else { visitor.fail() }
  }
}

extension Sending {
  /// Visits what records of the second version have besides.
  private func newFields<Visitor: StateVisitor>(
    _ visitor: inout Visitor, _ rules: inout SendPolicy.Rules
  ) {
    visitor.list("limit_names", &rules.limits, blank: "") { $0.text("limit", &$1) }
    visitor.list("lockout", &rules.lockout, blank: .zero) {
      $0.field("step", &$1.microseconds)
    }
    visitor.instant("own_until", &ownUntil)
    visitor.field("locks", &record.locks)
    visitor.instant("locked_until", &record.lockedUntil)
    visitor.keys(&limits)
    visitor.charges(&record.sends, after: limits)
    if visitor.format >= EntityRecord.pausedWait { visitor.interval("own_left", &ownLeft) }
    guard visitor.format >= EntityRecord.triedAtOnce else { return }
    visitor.list("tried", &record.tried, blank: Generation(0)) { $0.generation(&$1) }
    visitor.require(record.tried.count <= SendRecord.maximumCodes)
    guard visitor.format >= EntityRecord.bounded else { return }
    visitor.list("attempt_limit_names", &rules.attemptLimits, blank: "") { $0.text("limit", &$1) }
    visitor.optional("guess_window", &rules.guesses, blank: .blank) { $1.fields(&$0) }
    visitor.list("guesses", &record.guesses)
    visitor.optional("refund_window", &rules.refunds, blank: .blank) { $1.fields(&$0) }
    visitor.list("refunds", &record.refunds, blank: .zero) { $0.instant("at", &$1) }
    visitor.require(max(record.guesses.count, record.refunds.count) <= SendPolicy.maximumInWindow)
    guard visitor.format >= EntityRecord.past else { return }
    visitor.list("past", &record.past)
    visitor.require(record.past.count <= SendRecord.maximumPast)
    guard !visitor.hasFailed else { return }
    visitor.charges(&record.past, after: limits)
  }
}

extension StateVisitor {
  /// Visits the limits that sends were charged to. Most have the same as the one before.
  fileprivate mutating func charges(
    _ sends: inout [SendRecord.Send], after limits: [[UInt8]]
  ) {
    var limits = limits
    for index in sends.indices {
      var isSame = sends[index].limits == limits
      field("same_limits", &isSame)
      if !isSame {
        var others = sends[index].limits
        keys(&others)
        limits = others
      }
      if Self.isReading { sends[index].limits = limits }
      if EntityRecord.hasShares(format) { shares(&sends[index]) }
    }
  }

  /// Visits the ids of a send whose keys are known.
  fileprivate mutating func shares(_ send: inout SendRecord.Send) {
    var ids = send.isShared ? send.shares.map(\.id) : []
    list("places", &ids, blank: 0) { $0.field("place", &$1) }
    guard Self.isReading, !ids.isEmpty else { return }
    require(ids.count == send.limits.count)
    send.shares = zip(send.limits, ids).map { LimitShare(key: $0, id: $1) }
  }

  fileprivate mutating func keys(_ keys: inout [[UInt8]]) {
    list("limits", &keys, blank: []) { $0.field("key", &$1) }
    require(keys.count <= LimitRules.maximumAtOnce)
    require(keys.allSatisfy { (1...EntityRecord.longestKey).contains($0.count) })
  }
}

extension SendPolicy {
  fileprivate static let blank: SendPolicy = {
    var rules = Rules()
    rules.every = .seconds(1)
    rules.count = 1
    guard let policy = try? SendPolicy(name: "blank", rules) else {
      preconditionFailure("a valid policy")
    }
    return policy
  }()
}

extension SendRecord: Stored {
  package static var blank: SendRecord { SendRecord() }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.field("number", &number)
    // The next send must not overflow the number.
    bytes.require(number <= Int32.max)
    bytes.field("passed", &isPassed)
    bytes.list("sends", &sends)
  }
}

extension SendRecord.Send: Stored {
  package static var blank: SendRecord.Send {
    SendRecord.Send(generation: Generation(0), at: .zero, expires: nil)
  }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.field("generation", &generation.value)
    bytes.instant("at", &at)
    bytes.instant("expires", &expires)
    bytes.field("attempts", &attempts)
  }
}

extension SendRecord.Guess: Stored {
  package static var blank: SendRecord.Guess {
    SendRecord.Guess(at: .zero, generation: Generation(0), isAtAny: false)
  }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.instant("at", &at)
    bytes.generation(&generation)
    bytes.field("any", &isAtAny)
  }
}

extension SendPolicy.Window: Stored {
  package static var blank: SendPolicy.Window { SendPolicy.Window(limit: 0, length: .zero) }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    var number = Int64(limit)
    bytes.field("limit", &number)
    limit = Int(number)
    bytes.field("length", &length.microseconds)
  }
}

/// `SendPolicy` validates the rules that are read.
extension SendPolicy.Rules: Stored {
  package static var blank: SendPolicy.Rules { SendPolicy.Rules() }

  package mutating func fields<Bytes: StateVisitor>(_ bytes: inout Bytes) {
    bytes.clamped("count", &count)
    bytes.field("every", &every.microseconds)
    bytes.list("ladder", &ladder, blank: .zero) { $0.field("cooldown", &$1.microseconds) }
    bytes.list("windows", &windows)
    bytes.list("channels", &channels, blank: "") {
      $0.text("channel", &$1)
    }
    var validity = validity?.microseconds
    bytes.field("validity", &validity)
    if Bytes.isReading { self.validity = validity.map { Interval(microseconds: $0) } }
    bytes.clamped("attempts", &attempts)
    bytes.choice("on_resend", &onResend)
    bytes.field("title", &title)
    bytes.field("ready_title", &readyTitle)
  }
}

extension StateVisitor {
  fileprivate mutating func clamped(_ name: StaticString, _ value: inout UInt32?) {
    var number = value.map(Int64.init)
    field(name, &number)
    if Self.isReading { value = number.map { UInt32(clamping: $0) } }
  }
}
