/// What is wrong with the limits that a request names.
package enum LimitProblem: Error, Equatable {
  case noPolicy
  /// The policy does not name this limit.
  case notOfPolicy(
    key: [UInt8], policy: String, limits: [String], of: SendPolicy.LimitedRequest = .send)
  case twice(name: String)
  case missing(name: String, policy: String)
  /// The limit takes its key from the countdown, or has one for all.
  case isDerived(name: String, isGlobal: Bool)
  /// The limit has one key for all, which is another one.
  case isGlobal(name: String, key: [UInt8])
  case tooLong(name: String, count: Int)
  /// The configuration has no such limit.
  case unknown(key: [UInt8], known: [String])
  case costTooHigh(name: String, maximum: Int64)
  /// Nothing is known of a single TAKE, so none can be given back by its id.
  case hasNoRecord(key: [UInt8])

  var text: String {
    switch self {
    case .noPolicy: "LIMIT needs a POLICY, which names its limits"
    case .notOfPolicy(let key, let policy, let limits, let request):
      "policy '\(policy)' has no limit for '\(quoted(key.span))'"
        + (request == .attempt ? " in its attempt-limits" : "") + "; "
        + Self.hint(key, limits, none: "it names none")
    case .twice(let name): "the limit '\(name)' is given twice"
    case .missing(let name, let policy):
      "policy '\(policy)' needs a key for its limit '\(name)': LIMIT \(name):KEY"
    case .isDerived(let name, let isGlobal):
      "the limit '\(name)' "
        + (isGlobal ? "has one key for all" : "takes its key from the countdown's")
        + "; leave it out of LIMIT"
    case .isGlobal(let name, let key):
      "the limit '\(name)' has one key for all, '\(name):', so not '\(quoted(key.span))'"
    case .tooLong(let name, let count):
      "the key of the limit '\(name)' has 1 to \(EntityRecord.longestKey) bytes, this one \(count)"
    case .unknown(let key, let known):
      "no limit for '\(quoted(key.span))'; "
        + Self.hint(key, known, none: "the configuration has no throttles")
        + ". A limit without a name needs BURST and RATE"
    case .costTooHigh(let name, let maximum):
      "COST is more than \(maximum), the most that '\(name)' ever allows at once"
    case .hasNoRecord(let key):
      "'\(quoted(key.span))' has no windows, so it has no record of each TAKE; leave out ID (TOKEN "
        + "makes REFUND safe to repeat)"
    }
  }

  private static func hint(_ key: [UInt8], _ known: [String], none: String) -> String {
    guard !known.isEmpty else { return none }
    let name = LimitRules.name(of: key.span) ?? String(decoding: key, as: UTF8.self)
    let guess = Suggestion.best(for: name, among: known)
    let maximum = 20
    let list = known.prefix(maximum).joined(separator: ", ") + (known.count > maximum ? ", …" : "")
    return (guess.map { "did you mean '\($0)'? " } ?? "") + "known: \(list)"
  }
}

extension Engine {
  /// Returns the limits of a policy, in its order.
  ///
  /// - Parameters:
  ///   - given: the keys that the request gives.
  ///   - key: the key of the countdown.
  ///   - request: what is charged to them.
  func charges(
    of policy: SendPolicy, _ given: [[UInt8]], for key: Span<UInt8>,
    by request: SendPolicy.LimitedRequest = .send, at now: Moment
  ) throws(EngineError) -> [Charge] {
    let names = policy.rules.limits(of: request)
    for (index, limit) in given.enumerated() {
      guard let name = names.first(where: { LimitRules.has($0, limit) }) else {
        // A key keeps its policy, also when the configuration has given it another limit.
        let current = settings.policies[policy.name]?.rules.limits(of: request) ?? []
        if current.contains(where: { LimitRules.has($0, limit) }) { continue }
        throw .limits(
          .notOfPolicy(key: limit, policy: policy.name, limits: names, of: request))
      }
      guard !given[..<index].contains(where: { LimitRules.has(name, $0) }) else {
        throw .limits(.twice(name: name))
      }
    }
    var charges: [Charge] = []
    charges.reserveCapacity(names.count)
    for name in names {
      // A key keeps its policy, also when the configuration has lost one of its limits.
      guard let limitRules = settings.throttles[name] else { continue }
      let rules = limitRules.rules
      let limit: [UInt8]
      if let given = given.first(where: { LimitRules.has(name, $0) }) {
        guard !rules.isGlobal, rules.droppedSuffixLength == nil else {
          throw .limits(.isDerived(name: name, isGlobal: rules.isGlobal))
        }
        limit = given
      } else if rules.isGlobal {
        limit = LimitRules.key(name, [])
      } else if let count = rules.droppedSuffixLength {
        limit =
          stores.throttles.derivedKeys[name]
          ?? LimitRules.key(name, LimitRules.shortened(key, by: count))
      } else {
        throw .limits(.missing(name: name, policy: policy.name))
      }
      guard limit.count <= EntityRecord.longestKey else {
        throw .limits(.tooLong(name: name, count: limit.count))
      }
      charges.append(Charge(key: limit, rules: limitRules))
    }
    if let journal { journal.willCharge(charges.map(\.key), at: now) }
    for index in charges.indices {
      let limit = charges[index].key
      charges[index].index = self.limit(limit, at: now)
    }
    return charges
  }
}

/// THROTTLE TAKE for named limits.
package struct LimitsRequest {
  var keys: [[UInt8]]
  var cost: UInt32
  var isPeek: Bool
  var token: [UInt8]?
  /// What the token stands for: all limits and the cost, also if only one of them is asked.
  let digest: Int64
  /// Whether it is a send with a code, whose outcome comes later.
  var hasCode = false

  package init(
    keys: [[UInt8]], cost: UInt32 = 1, isPeek: Bool = false, token: [UInt8]? = nil
  ) {
    (self.keys, self.cost, self.isPeek, self.token) = (keys, cost, isPeek, token)
    digest = token == nil ? 0 : Tokens.digest(keys, cost)
  }
}

/// The answer to it.
package struct LimitsAnswer: Equatable {
  package var refusal: Refusal?
  package var isRepeated = false
  /// The id of what was taken, also the first time; 0 if nothing was.
  package var id: Int64 = 0
  package var views: [ThrottleView] = []
}

extension Engine {
  /// Takes `cost` from all named limits, or from none.
  package func takeLimits(
    _ request: LimitsRequest, by client: Client, at now: Moment
  ) throws(EngineError) -> LimitsAnswer {
    try checkNamed(request)
    let (keys, cost, token) = (request.keys, request.cost, request.token)
    var charges = charges(keys, at: now)
    if let id = try accepted(request) {
      statistics.decisions.repeated += 1
      return LimitsAnswer(
        isRepeated: true, id: id, views: views(of: charges, id: id, ofFirst: token, at: now))
    }
    guard !request.isPeek else { return look(at: charges, cost: cost, at: now) }
    if let refusal = refusal(of: charges, cost: cost, at: now) {
      publishRefusal(refusal, of: charges, at: now)
      return look(at: charges, cost: cost, at: now)
    }
    try checkWritable(.none)
    let added = newEntities(of: charges)
    if added > 0 { try checkLimits(client, adding: added) }
    let id = newGeneration()
    take(
      &charges, cost: cost, id: id, hasCode: request.hasCode, token: token,
      digest: request.digest, by: client, at: now)
    shadow(at: now)?.learn { other throws(EngineError) in
      other.number(next: id)
      _ = try other.takeLimits(LimitsRequest(keys: keys, cost: cost), by: client, at: now)
    }
    return LimitsAnswer(id: id.value, views: views(of: charges, id: id.value, at: now))
  }

  /// Throws unless all keys are of named limits that can have so much taken.
  func checkNamed(_ request: LimitsRequest) throws(EngineError) {
    for key in request.keys {
      guard let rules = rules(of: key.span) else {
        if rulesOfName(of: key.span) != nil, let name = LimitRules.name(of: key.span) {
          throw .limits(.isGlobal(name: name, key: key))
        }
        throw .limits(.unknown(key: key, known: settings.throttles.keys.sorted()))
      }
      guard Int64(request.cost) <= rules.maximumCost else {
        throw .limits(
          .costTooHigh(name: LimitRules.name(of: key.span) ?? "", maximum: rules.maximumCost))
      }
    }
  }

  /// Returns the id that a request with this token was accepted with; nil if none was. Throws if
  /// the token belongs to another request.
  ///
  /// A busy limit forgets its tokens early, so any of the limits may be the one that knows it.
  func accepted(_ request: LimitsRequest) throws(EngineError) -> Int64? {
    guard let token = request.token else { return nil }
    var (first, count): (Int64?, Int) = (nil, 0)
    for key in request.keys {
      guard let index = throttles.find(key),
        let entry = try throttles[index].tokens.request(token, of: .take, request.digest)
      else { continue }
      first = max(first ?? 0, entry.id)
      // What a token of an earlier release stands for is unknown: all of its limits know it.
      count += entry.isOfUnknownRequest ? 1 : request.keys.count
    }
    return count >= request.keys.count ? first : nil
  }

  /// Returns whether limits would accept a request, or what became of its first time.
  func lookAtLimits(
    _ request: LimitsRequest, isRepeated: Bool = false, at now: Moment
  ) -> LimitsAnswer {
    let charges = charges(of: request.keys, at: now)
    guard isRepeated else { return look(at: charges, cost: request.cost, at: now) }
    return LimitsAnswer(
      isRepeated: true, views: views(of: charges, ofFirst: request.token, at: now))
  }

  private func look(at charges: [Charge], cost: UInt32, at now: Moment) -> LimitsAnswer {
    let refusal = refusal(of: charges, cost: cost, at: now)
    return LimitsAnswer(
      refusal: refusal,
      views: views(of: charges, cost: refusal == nil ? 1 : cost, at: now))
  }

  /// Publishes that a limit has refused a request.
  func publishRefusal(_ refusal: Refusal, of charges: [Charge], at now: Moment) {
    guard let index = charges.first(where: { $0.key == refusal.limit })?.index else { return }
    publish(ThrottleKind.self, index, .refused, reason: refusal.reason, at: now)
  }

  /// - Parameters:
  ///   - id: the id of what was taken; 0 if nothing was, or only the token knows it.
  ///   - token: the token by whose first time the views have their generations.
  private func views(
    of charges: [Charge], id: Int64 = 0, ofFirst token: [UInt8]? = nil, at now: Moment
  ) -> [ThrottleView] {
    var views = views(of: charges, cost: 1, at: now)
    for place in views.indices {
      var id = id
      if let token, let index = throttles.find(views[place].key),
        let first = throttles[index].tokens.entry(token, of: .take)
      {
        views[place].generation = first.generation
        id = first.id
      }
      views[place].name(id, by: charges[place].rules)
    }
    return views
  }

  private func views(of charges: [Charge], cost: UInt32, at now: Moment) -> [ThrottleView] {
    charges.map { charge in
      guard let index = charge.index, throttles.contains(index) else {
        return ThrottleView(
          charge.key, Generation(0), Throttle(charge.rules, at: now.boot), by: charge.rules,
          at: now)
      }
      let entity = throttles[index]
      return ThrottleView(
        entity.key, entity.generation, entity.machine, by: charge.rules, cost: cost, at: now)
    }
  }
}
