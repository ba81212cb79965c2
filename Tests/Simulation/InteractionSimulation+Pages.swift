import Countdowns

/// Commands on stacks and pages, asked of the engine and of the model.
extension InteractionSimulation {
  private static let stacks = ["n0", "n1"]
  private static let pages = (0..<6).map { "p\($0)" }
  private static let contents = (0..<3).map { "g\($0)" }

  // MARK: Stacks

  mutating func playStacks() throws(Disagreement) {
    let name = pick(Self.stacks)
    switch Int.random(in: 0..<24, using: &random) {
    case 0..<7: try push(pick(Self.pages), on: name)
    case 7, 20: try pop(name)
    case 8: try root(name)
    case 9: if chance(oneIn: 3) { try dismiss(name) }
    case 10..<14: try swipe(name)
    case 14, 15: try progress(name)
    case 16, 21: try finish(name)
    case 17, 22: try cancel(name)
    case 18: try setPage(pick(Self.pages), on: name)
    default: try observe("GET \(name)") { this throws(Disagreement) in try this.compareStack(name) }
    }
  }

  private mutating func push(_ page: String, on name: String) throws(Disagreement) {
    var push = PagePush(page: Array(page.utf8))
    push.edge = pick([0, 20])
    push.pops = !chance(oneIn: 5)
    push.bar = pick([nil, .shown, .hidden])
    push.style = pick([.pushed, .pushed, .presented])
    push.pace = anyPace()
    if chance(oneIn: 2) {
      // No timeout: when a refresh begins depends on when the engine notices that the page is back.
      var appearance = PageAppearance()
      appearance.timeout = .zero
      appearance.refresh = pick([nil, .never, .every])
      push.appearance = appearance
    }
    var wanted = push
    let parent: String? = model.stacks[name] == nil && chance(oneIn: 2) ? anyScope() : nil
    wanted.opening.parent = parent.map { Array($0.utf8) }
    let pushed = wanted
    try observe("PUSH \(name) \(page) \(push.style) \(push.pace) below \(parent ?? "-")") {
      this throws(Disagreement) in
      let asked = this.stackAnswer(name) { (engine, key, now, client) throws(EngineError) in
        try engine.pushPage(key, pushed, by: client, at: now)
      }
      let stack = this.model.stacks[name]
      if case .failure(.scope(.isClosing)) = asked, this.model.scopes[page] == nil,
        this.events.isBeingClosed(page)
      {
        return
      }
      let added = (stack == nil ? 2 : 1) + (pushed.appearance == nil ? 0 : 2)
      if this.isFull(asked, adding: added) { return }
      if let expected = this.expected(push: page, on: stack, parent) {
        return try this.compare("PUSH \(name) \(page)", asked, expected)
      }
      try this.compare("PUSH \(name) \(page)", asked, .success(nil))
      let now = this.now
      let content = page.withKey { this.engine.page($0, at: now)?.generation }
      guard let generation = page.withKey({ this.engine.scope($0, at: now)?.generation }) else {
        throw Disagreement(description: "PUSH \(page): there is no scope")
      }
      let entry = InteractionModel.StackPage(
        name: page, edge: pushed.edge, pops: pushed.pops, bar: pushed.bar, style: pushed.style)
      if let parent {
        this.events.note(scope: generation, page, below: this.model.scopes[parent]!.generation)
        this.model.open(
          page,
          InteractionModel.Scope(
            generation: generation, parent: parent, isRouted: true, owner: .none))
      } else {
        this.opened(page: page, generation, above: stack?.pages.last?.name)
      }
      if let appearance = pushed.appearance {
        guard let content else { throw Disagreement(description: "PUSH \(page): there is no page") }
        this.model.contents[page] = InteractionModel.Content(
          generation: content, state: .loading, before: .content, owner: page,
          ownerGeneration: generation, isBound: true, refresh: appearance.refresh ?? .always)
      }
      if stack == nil {
        this.model.stacks[name] = InteractionModel.Stack(pages: [entry], bar: entry.bar ?? .shown)
      } else {
        this.model.stacks[name]!.pages.append(entry)
        this.model.begin(name, pushed.style == .pushed ? .push : .present, pushed.pace)
      }
      try this.compareStack(name)
    }
  }

  private func expected(
    push page: String, on stack: InteractionModel.Stack?, _ parent: String?
  ) -> Result<Reason?, EngineError>? {
    if let stack {
      if stack.transition != nil { return .success(.transitioning) }
      if stack.pages.count >= 4 { return .failure(.limit(name: "max-stack-pages", value: 4)) }
    }
    if model.scopes[page] != nil { return .failure(.scope(.exists(Array(page.utf8)))) }
    // Without a named parent, a page has the parent of the page below it.
    let above = parent ?? stack.flatMap { model.scopes[$0.pages.last!.name]!.parent }
    guard let above else { return nil }
    if model.scopes[above] == nil { return .failure(.scope(.noScope(Array(above.utf8)))) }
    if model.depth(above) >= 6 { return .failure(.limit(name: "max-scope-depth", value: 6)) }
    return nil
  }

  private mutating func pop(_ name: String) throws(Disagreement) {
    let pace = anyPace()
    try change("POP \(pace)", name) { (engine, key, now) throws(EngineError) in
      try engine.popPage(key, pace, generation: nil, at: now)
    } model: { model in
      if model.stacks[name]!.transition != nil { return .transitioning }
      if model.stacks[name]!.pages.count == 1 { return .root }
      model.begin(name, .pop, pace)
      return nil
    }
  }

  private mutating func anyPace() -> NavigationStack.Pace {
    pick([.atOnce, .atOnce, .lasting(.milliseconds(350)), .lasting(.seconds(2)), .untilFinished])
  }

  private mutating func setPage(_ page: String, on name: String) throws(Disagreement) {
    var wanted = NavigationStack.Change()
    wanted.edge = pick([nil, 0, 20])
    wanted.pops = pick([nil, true, false])
    wanted.bar = pick([nil, .some(nil), .some(.shown), .some(.hidden)])
    let wish = wanted
    try change("SET \(page) \(wish)", name) { (engine, key, now) throws(EngineError) in
      try engine.setPage(key, Array(page.utf8), wish, at: now)
    } model: { model in
      var stack = model.stacks[name]!
      guard let place = stack.pages.firstIndex(where: { $0.name == page }) else { return .noPage }
      stack.pages[place].edge = wish.edge ?? stack.pages[place].edge
      stack.pages[place].pops = wish.pops ?? stack.pages[place].pops
      stack.pages[place].bar = wish.bar ?? stack.pages[place].bar
      if stack.transition == nil { stack.appeared(stack.pages.last!) }
      model.stacks[name] = stack
      return nil
    }
  }

  private mutating func root(_ name: String) throws(Disagreement) {
    try change("ROOT", name) { (engine, key, now) throws(EngineError) in
      try engine.popToRoot(key, generation: nil, at: now)
    } model: { model in
      if model.stacks[name]!.transition != nil { return .transitioning }
      if model.stacks[name]!.pages.count == 1 { return .root }
      model.cut(name, from: 1)
      return nil
    }
  }

  private mutating func dismiss(_ name: String) throws(Disagreement) {
    try observe("DISMISS \(name)") { this throws(Disagreement) in
      let isAlive = this.model.stacks[name] != nil
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.dismissStack(key, generation: nil, at: now)
        }
      }
      try this.compare("DISMISS \(name)", asked, .success(isAlive))
      if isAlive { this.model.cut(name, from: 0) }
      try this.compareStack(name)
    }
  }

  private mutating func swipe(_ name: String) throws(Disagreement) {
    let x = pick([5.0, 50])
    let dx = pick([3.0, 3, -1])
    let timeout = Interval.milliseconds(pick([500, 5_000]))
    try change("SWIPE x \(x) dx \(dx)", name) { (engine, key, now) throws(EngineError) in
      try engine.swipe(key, x: x, dx: dx, timeout: timeout, at: now)
    } model: { model in
      if let refusal = model.refusal(ofSwipe: name, x: x, dx: dx) { return refusal }
      model.stacks[name]!.transition = InteractionModel.Transition(
        kind: .swipe, timeout: timeout.microseconds, until: model.now + timeout.microseconds)
      return nil
    }
  }

  private mutating func progress(_ name: String) throws(Disagreement) {
    try change("PROGRESS", name) { (engine, key, now) throws(EngineError) in
      try engine.progressTransition(key, 0.5, generation: nil, at: now)
    } model: { model in
      guard let transition = model.stacks[name]!.transition else { return .notTransitioning }
      if let timeout = transition.timeout {
        model.stacks[name]!.transition!.until = model.now + timeout
      }
      return nil
    }
  }

  private mutating func finish(_ name: String) throws(Disagreement) {
    try change("FINISH", name) { (engine, key, now) throws(EngineError) in
      try engine.finishTransition(key, generation: nil, at: now)
    } model: { model in
      guard model.stacks[name]!.transition != nil else { return .notTransitioning }
      model.end(name, cancelled: false)
      return nil
    }
  }

  private mutating func cancel(_ name: String) throws(Disagreement) {
    try change("CANCEL", name) { (engine, key, now) throws(EngineError) in
      try engine.cancelTransition(key, generation: nil, at: now)
    } model: { model in
      guard model.stacks[name]!.transition != nil else { return .notTransitioning }
      model.end(name, cancelled: true)
      return nil
    }
  }

  private mutating func change(
    _ what: String, _ name: String,
    engine body: (Engine, Span<UInt8>, Moment) throws(EngineError)
      -> Engine.StackAnswer,
    model: (inout InteractionModel) -> Reason?
  ) throws(Disagreement) {
    try observe("\(what) \(name)") { this throws(Disagreement) in
      let asked = this.stackAnswer(name) { (engine, key, now, _) throws(EngineError) in
        try body(engine, key, now)
      }
      guard this.model.stacks[name] != nil else {
        return try this.compare("\(what) \(name)", asked, .failure(.notFound))
      }
      try this.compare("\(what) \(name)", asked, .success(model(&this.model)))
      try this.compareStack(name)
    }
  }

  private mutating func stackAnswer(
    _ name: String,
    _ body: (Engine, Span<UInt8>, Moment, Client) throws(EngineError)
      -> Engine.StackAnswer
  ) -> Result<Reason?, EngineError> {
    ask { (engine, now, client) throws(EngineError) in
      try name.withKeyThrowing { key throws(EngineError) in
        try body(engine, key, now, client).refusal
      }
    }
  }

  mutating func compareStacks() throws(Disagreement) {
    for name in Self.stacks { try compareStack(name) }
  }

  private mutating func compareStack(_ name: String) throws(Disagreement) {
    model.settle()
    let now = now
    let view = name.withKey { engine.stack($0, at: now) }
    let stack = model.stacks[name]
    try compare("the pages of \(name)", view?.pages, stack?.pages.map { Array($0.name.utf8) })
    try compare("the bar of \(name)", view?.bar, stack?.bar)
    try compare("the transition of \(name)", view?.transition, stack?.transition?.kind)
    try compare(
      "the end of the transition of \(name)", view?.remainingMS,
      stack?.transition?.until.map { ($0 - model.now).roundedUp })
  }

  // MARK: Pages

  mutating func playPages() throws(Disagreement) {
    let bound = model.contents.keys.filter { model.contents[$0]!.isBound }.sorted()
    let name = pick(Self.contents + bound)
    let isBound = bound.contains(name)
    let message: [UInt8]? = pick([nil, [1], [2]])
    switch Int.random(in: 0..<11, using: &random) {
    case 0..<4: try appear(isBound ? pick(Self.contents) : name)
    case 4: try disappear(name)
    case 5:
      let items: Int64? = pick([nil, 0, 7])
      try answer("LOADED", name) { (engine, key, now, client) throws(EngineError) in
        try engine.pageLoaded(
          key, items: items, message: message, generation: nil, by: client, at: now)
      } model: { model in
        guard [.loading, .refreshing].contains(model.contents[name]!.state) else {
          return .notLoading
        }
        model.contents[name]!.state = items == 0 ? .empty : .content
        model.contents[name]!.items = items
        model.contents[name]!.message = message
        model.contents[name]!.deadline = nil
        return nil
      }
    case 6:
      try answer("FAILED", name) { (engine, key, now, client) throws(EngineError) in
        try engine.pageFailed(key, message: message, generation: nil, by: client, at: now)
      } model: {
        $0.fail(name, message)
      }
    case 7:
      try answer("RETRY", name) { (engine, key, now, client) throws(EngineError) in
        try engine.retryPage(key, generation: nil, by: client, at: now)
      } model: { model in
        guard [.error, .empty].contains(model.contents[name]!.state) else { return .notFailed }
        model.load(name, silently: false)
        if model.contents[name]!.showsHUD { model.messages[name] = nil }
        return nil
      }
    case 8:
      try answer("REFRESH", name) { (engine, key, now, client) throws(EngineError) in
        try engine.refreshPage(key, generation: nil, by: client, at: now)
      } model: { model in
        if [.loading, .refreshing].contains(model.contents[name]!.state) { return .loading }
        model.load(name, silently: true)
        return nil
      }
    case 9: if chance(oneIn: 2) { try closePage(name) }
    default:
      let asksForHUD = !isBound && chance(oneIn: 2)
      try observe("\(asksForHUD ? "HUD " : "")GET \(name)") { this throws(Disagreement) in
        if asksForHUD { try this.compareHUD(name) }
        try this.compareContent(name)
      }
    }
  }

  private mutating func appear(_ name: String) throws(Disagreement) {
    let refresh = pick(PageLoad.Refresh.allCases)
    let timeout = pick([0, 700, 4_000] as [Int64])
    let ownerName: String? = chance(oneIn: 3) ? anyScope() : nil
    try observe("APPEAR \(name) \(refresh) \(timeout) owner \(ownerName ?? "-")") {
      this throws(Disagreement) in
      var appearance = PageAppearance()
      appearance.refresh = refresh
      appearance.timeout = .milliseconds(timeout)
      if let ownerName {
        guard let owner = try this.owner(ownerName) else { return }
        appearance.owner = owner
      }
      let said = appearance
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.appearPage(key, said, by: client, at: now).generation
        }
      }
      if this.isFull(asked, adding: this.model.contents[name] == nil ? 2 : 1) { return }
      guard case .success(let generation) = asked else {
        throw Disagreement(description: "APPEAR \(name): \(asked)")
      }
      let limit = timeout == 0 ? nil : timeout * 1_000
      let deadline = limit.map { this.model.now + $0 }
      if var content = this.model.contents[name] {
        let isBack = !content.isVisible
        content.isVisible = true
        content.timeout = limit
        this.model.contents[name] = content
        switch content.state {
        case .content, .empty:
          if refresh == .every || refresh == .always && isBack {
            this.model.load(name, silently: true)
          }
        case .error: if refresh == .every { this.model.load(name, silently: false) }
        case .loading, .refreshing: break
        }
      } else {
        this.model.contents[name] = InteractionModel.Content(
          generation: generation, state: .loading, before: .content, deadline: deadline,
          timeout: limit)
      }
      if let ownerName {
        this.model.contents[name]!.owner = ownerName
        this.model.contents[name]!.ownerGeneration = this.model.scopes[ownerName]!.generation
      }
      if this.model.contents[name]!.showsHUD { this.model.messages[name] = nil }
      try this.compareContent(name)
    }
  }

  private mutating func disappear(_ name: String) throws(Disagreement) {
    try observe("DISAPPEAR \(name)") { this throws(Disagreement) in
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.disappearPage(key, by: client, at: now).isVisible
        }
      }
      let isAlive = this.model.contents[name] != nil
      try this.compare(
        "DISAPPEAR \(name)", asked, isAlive ? .success(false) : .failure(.notFound))
      this.model.contents[name]?.isVisible = false
    }
  }

  mutating func closePage(_ name: String) throws(Disagreement) {
    try observe("PAGE CLOSE \(name)") { this throws(Disagreement) in
      let asked = this.ask { (engine, now, _) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.closePage(key, generation: nil, at: now)
        }
      }
      let isAlive = this.model.contents.removeValue(forKey: name) != nil
      try this.compare("PAGE CLOSE \(name)", asked, .success(isAlive))
    }
  }

  private mutating func answer(
    _ what: String, _ name: String,
    _ body: (Engine, Span<UInt8>, Moment, Client) throws(EngineError)
      -> Engine.PageAnswer,
    model: (inout InteractionModel) -> Reason?
  ) throws(Disagreement) {
    try observe("\(what) \(name)") { this throws(Disagreement) in
      let asked: Result<Reason?, EngineError> = this.ask {
        (engine, now, client) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try body(engine, key, now, client).refusal
        }
      }
      guard this.model.contents[name] != nil else {
        return try this.compare("\(what) \(name)", asked, .failure(.notFound))
      }
      let before = this.model
      let refusal = model(&this.model)
      let asksForHUD =
        this.model.contents[name]!.showsHUD && !before.contents[name]!.showsHUD
      if asksForHUD, this.isFull(asked, adding: 1) {
        this.model = before
      } else {
        try this.compare("\(what) \(name)", asked, .success(refusal))
      }
      try this.compareContent(name)
    }
  }

  mutating func compareContents() throws(Disagreement) {
    for name in Self.contents {
      try compareContent(name)
      try compareHUD(name)
    }
    for name in Self.pages { try compareContent(name) }
  }

  /// Compares HUDs of stack pages, once nothing is due. A limit may leave a page without one.
  mutating func compareBoundHUDs() throws(Disagreement) {
    model.settle()
    let now = now
    for (name, content) in model.contents where content.isBound {
      model.contents[name]!.lacksHUD = false
      let isShown = model.contents[name]!.showsHUD
      let hud = name.withKey { engine.hud($0, level: nil, at: now)?.state }
      if isShown, hud == nil, isLimited {
        model.contents[name]!.lacksHUD = true
      } else {
        try compare("the HUD of \(name)", hud, isShown ? .visible : nil)
      }
    }
  }

  private mutating func compareHUD(_ name: String) throws(Disagreement) {
    model.settle()
    let now = now
    let hud = name.withKey { engine.hud($0, level: nil, at: now)?.state }
    let isShown = model.contents[name]?.showsHUD == true || model.messages[name] != nil
    try compare("the HUD of \(name)", hud, isShown ? .visible : nil)
  }

  /// Shows a message on the screen of a page, unless the page's HUD is there.
  mutating func playMessages() throws(Disagreement) {
    let name = pick(Self.contents)
    let minimum = pick([.milliseconds(500), .seconds(5)] as [Interval])
    let request = Presentation.Request(
      kind: .info, fadeIn: .zero, fadeOut: .zero, messageMinimum: minimum)
    try observe("HUD SHOW \(name)") { this throws(Disagreement) in
      if this.model.contents[name]?.showsHUD == true { return }
      let asked = this.ask { (engine, now, client) throws(EngineError) in
        try name.withKeyThrowing { key throws(EngineError) in
          try engine.showHUD(
            key, level: .normal, request, owner: .none, by: client, at: now
          ).state
        }
      }
      if this.isFull(asked, adding: this.model.messages[name] == nil ? 1 : 0) { return }
      try this.compare("HUD SHOW \(name)", asked, .success(.visible))
      this.model.messages[name] = this.model.now + minimum.microseconds
    }
  }

  private mutating func compareContent(_ name: String) throws(Disagreement) {
    model.settle()
    let now = now
    let view = name.withKey { engine.page($0, at: now) }
    let content = model.contents[name]
    try compare("the state of \(name)", view?.state, content?.state)
    try compare("whether \(name) is visible", view?.isVisible, content?.isVisible)
    try compare("the items of \(name)", view?.items, content?.items)
    try compare("the message of \(name)", view?.message, content?.message)
    try compare(
      "the timeout of \(name)", view?.remainingMS,
      content?.deadline.map { ($0 - model.now).roundedUp })
  }
}
