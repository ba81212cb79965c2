extension Engine {
  // MARK: Commands

  /// One call; subscribers are told once it has been quiet. The newest call's rule, payload and
  /// owner count.
  package func callDebounce(
    _ key: UnsafeRawBufferPointer, _ rule: Debounce.Rule, payload: [UInt8]?, owner: Owner,
    by client: Client, at now: Moment
  ) throws(EngineError) -> DebounceView {
    try checkWritable(owner)
    guard let entity = settledGuard(.debounce, key, at: now) else {
      try checkLimits(client)
      let (machine, firing) = Debounce.begin(rule, payload, at: now.boot)
      let entity = insertGuard(key, .debounce(machine), owner: owner, by: client)
      noteChange(ofGuard: entity)
      if let firing { fire(entity, firing, isOver: false, at: now) }
      return DebounceView(guards[entity], at: now)
    }
    try checkWritable(guards[entity].owner)
    guards[entity].debounce.call(rule, payload, at: now.boot)
    setOwner(ofGuard: entity, owner)
    noteChange(ofGuard: entity)
    // Fires if it says a MAXWAIT that is over; it cannot have been quiet.
    expireGuard(entity, at: now)
    return DebounceView(guards[entity], at: now)
  }

  /// Forgets what was called; false if nothing was.
  package func cancelDebounce(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    try cancelGuard(.debounce, key, generation: generation, at: now)
  }

  /// Fires what waits, at once; false if nothing does.
  package func flushDebounce(
    _ key: UnsafeRawBufferPointer, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let entity = settledGuard(.debounce, key, at: now) else { return false }
    try check(generation, against: guards[entity].generation)
    guard let firing = guards[entity].debounce.flush() else { return false }
    try checkWritable(guards[entity].owner)
    fire(entity, firing, isOver: true, at: now)
    removeGuard(entity)
    return true
  }

  package func debounce(
    _ key: UnsafeRawBufferPointer, at now: Moment
  ) -> DebounceView? {
    settledGuard(.debounce, key, at: now).map { DebounceView(guards[$0], at: now) }
  }

  package func listDebounces(
    _ query: ListQuery, at now: Moment
  ) -> Page<DebounceView> {
    listGuards(.debounce, query, at: now) { DebounceView($0, at: now) }
  }

  // MARK: Time

  func expireDebounce(_ entity: EntityRef, at now: Moment) {
    let (firing, isOver) = guards[entity].debounce.expire(at: now.boot)
    if let firing {
      if let due = firing.due { statistics.record(late: (now.boot - due).microseconds) }
      fire(entity, firing, isOver: isOver, at: now)
    }
    if isOver { removeGuard(entity) }
  }

  private func fire(
    _ entity: EntityRef, _ firing: Debounce.Firing, isOver: Bool, at now: Moment
  ) {
    var view =
      isOver
      ? DebounceView(idle: guards[entity], at: now) : DebounceView(guards[entity], at: now)
    view.calls = firing.calls
    view.payload = firing.payload
    publish(
      entity, .fired, due: firing.due, reason: Event.Reason(firing.edge), of: .debounce(view),
      at: now)
  }
}

extension Event.Reason {
  fileprivate init(_ edge: Debounce.Edge) {
    switch edge {
    case .leading: self = .leading
    case .quiet: self = .quiet
    case .maximumWait: self = .maximumWait
    case .flush: self = .flush
    }
  }
}
