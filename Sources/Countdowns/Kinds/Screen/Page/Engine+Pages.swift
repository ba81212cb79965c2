import TimerWheel

/// Pages and their loads.
enum PageKind: ExpiringKind {
  typealias View = PageView

  static let kind = EntityKind.page
  static let name: StaticString = "page"
  static let keyName = "page"
  static let stateOfNothing: StaticString = "unknown"

  static func store(of engine: Engine) -> EntityTable<PageEntity> { engine.pages }

  /// Runs what is due, first for the page's stack, which may make the page appear or disappear.
  static func runDue(_ index: UInt32, in engine: Engine, at now: Moment) -> Bool {
    engine.runDue(stackOfPage: index, at: now)
    return runDueLocally(index, in: engine, at: now)
  }

  /// Runs what is due for each stack once: a stack may have very many of the pages.
  static func runDue(_ range: Range<UInt32>, in engine: Engine, at now: Moment) {
    var stacks: Set<UInt32> = []
    for index in range {
      if let stack = engine.stack(ofPage: index, at: now), stacks.insert(stack).inserted {
        _ = engine.runDue(stack: stack, at: now)
      }
      _ = runDueLocally(index, in: engine, at: now)
    }
  }

  /// Ends a load that has timed out.
  static func fire(_ index: UInt32, due: Instant, in engine: Engine, at now: Moment) {
    guard let due = engine.pages[index].machine.expire(at: now.boot) else { return }
    engine.statistics.record(late: (now.boot - due).microseconds)
    engine.publish(Self.self, index, .failed, due: due, reason: .timedOut, at: now)
    engine.endLease(of: index, isDone: true, asOf: due, at: now)
  }

  static func end(_ index: UInt32, _ reason: Reason, in engine: Engine, at now: Moment) {
    if reason == .ownerGone { engine.statistics.ownerGone += 1 }
    engine.endLease(of: index, isDone: reason == .closed, at: now)
    engine.publish(Self.self, index, .closed, reason: reason, at: now)
    engine.remove(Self.self, index)
  }
}

/// Pages and their loads. While an animated load is visible, the page shows the HUD of its screen.
extension Engine {
  package typealias PageAnswer = (refusal: Reason?, view: PageView)

  // MARK: Commands

  package func appearPage(
    _ key: Span<UInt8>, _ appearance: PageAppearance, by client: Client,
    at now: Moment
  ) throws(EngineError) -> PageView {
    guard let index = currentPage(key, at: now) else {
      return try insertPage(Array(key), appearance, by: client, at: now)
    }
    var options = pages[index].options
    appearance.apply(to: &options)
    let isElsewhere = options.screen != pages[index].options.screen
    var machine = pages[index].machine
    let wasVisible = machine.isVisible
    let isNew = machine.appear(options.refresh, timeout: options.timeout, at: now.boot)
    var hud: UInt32?
    if machine.isAnimated, pages[index].lease == nil || isElsewhere {
      hud = try hudToShow(for: options, by: client, at: now)
    }
    if isElsewhere {
      try checkWritable(leaseOf: index)
      endLease(of: index, isDone: true, at: now)
    }
    pages[index].options = options
    if let owner = appearance.owner, owner != pages[index].owner {
      connections.disown(EntityRef(.page, index), pages[index].owner)
      connections.own(EntityRef(.page, index), owner)
      pages[index].owner = owner
    }
    appeared(index, machine, isBack: !wasVisible, isNew: isNew, at: now)
    takeLease(of: index, hud, by: client, at: now)
    return PageView(pages[index], at: now)
  }

  private func appeared(
    _ index: UInt32, _ machine: PageLoad, isBack: Bool, isNew: Bool, at now: Moment
  ) {
    pages[index].machine = machine
    if isNew { pages[index].generation = newGeneration() }
    if isBack { publish(PageKind.self, index, .didAppear, at: now) }
    if isNew { publish(PageKind.self, index, .loading, at: now) }
    arm(PageKind.self, index)
  }

  package func disappearPage(
    _ key: Span<UInt8>, by client: Client, at now: Moment
  ) throws(EngineError) -> PageView {
    guard let index = currentPage(key, at: now) else { throw .notFound }
    try checkWritable(leaseOf: index)
    disappear(index, at: now)
    return PageView(pages[index], at: now)
  }

  private func disappear(_ index: UInt32, at now: Moment) {
    guard pages[index].machine.disappear() else { return }
    publish(PageKind.self, index, .didDisappear, at: now)
    endLease(of: index, isDone: true, at: now)
  }

  package func pageLoaded(
    _ key: Span<UInt8>, items: Int64?, message: [UInt8]?, generation: Generation?,
    by client: Client, at now: Moment
  ) throws(EngineError) -> PageAnswer {
    try change(key, generation, .loaded, at: now) { $0.loaded(items: items, message) }
  }

  package func pageFailed(
    _ key: Span<UInt8>, message: [UInt8]?, generation: Generation?, by client: Client,
    at now: Moment
  ) throws(EngineError) -> PageAnswer {
    try change(key, generation, .failed, at: now) { $0.failed(message) }
  }

  package func retryPage(
    _ key: Span<UInt8>, generation: Generation?, by client: Client, at now: Moment
  ) throws(EngineError) -> PageAnswer {
    try load(key, generation, by: client, at: now) { $0.retry(timeout: $1, at: now.boot) }
  }

  package func refreshPage(
    _ key: Span<UInt8>, generation: Generation?, by client: Client, at now: Moment
  ) throws(EngineError) -> PageAnswer {
    try load(key, generation, by: client, at: now) { $0.refresh(timeout: $1, at: now.boot) }
  }

  private func load(
    _ key: Span<UInt8>, _ generation: Generation?, by client: Client, at now: Moment,
    _ begin: (inout PageLoad, Interval?) -> Reason?
  ) throws(EngineError) -> PageAnswer {
    guard let index = currentPage(key, at: now) else { throw .notFound }
    try check(generation, against: pages[index].generation)
    var machine = pages[index].machine
    if let refusal = begin(&machine, pages[index].options.timeout) {
      return (refusal, PageView(pages[index], at: now))
    }
    let showsHUD = machine.isAnimated && machine.isVisible
    let hud = try showsHUD ? hudToShow(for: pages[index].options, by: client, at: now) : nil
    pages[index].machine = machine
    pages[index].generation = newGeneration()
    publish(PageKind.self, index, .loading, at: now)
    takeLease(of: index, hud, by: client, at: now)
    arm(PageKind.self, index)
    return (nil, PageView(pages[index], at: now))
  }

  /// Closes a page. Returns false if there was none.
  package func closePage(
    _ key: Span<UInt8>, generation: Generation?, at now: Moment
  ) throws(EngineError) -> Bool {
    guard let index = currentPage(key, at: now) else { return false }
    try check(generation, against: pages[index].generation)
    try checkWritable(leaseOf: index)
    PageKind.end(index, .closed, in: self, at: now)
    return true
  }

  package func page(_ key: Span<UInt8>, at now: Moment) -> PageView? {
    currentPage(key, at: now).map { PageView(pages[$0], at: now) }
  }

  // MARK: Pages of navigation stacks

  /// Throws if a page to be pushed cannot load, so that `loadPushedPage` would fail.
  ///
  /// - Parameter others: the number of other entities that the push adds.
  func checkPushedPage(
    _ push: PagePush, by client: Client, adding others: Int, at now: Moment
  ) throws(EngineError) {
    guard let appearance = push.appearance else { return }
    // These checks can close entities, so they precede the lookup of the HUD.
    try checkFree(page: push.page, at: now)
    guard currentPage(push.page.span, at: now) == nil else {
      throw .scope(.pageExists(push.page))
    }
    _ = try hudToShow(
      for: options(of: push.page, appearance), by: client, adding: others + 1, at: now)
  }

  /// Adds the page of a push with PAGE: it appears, and its first load begins.
  func loadPushedPage(
    _ push: PagePush, _ scope: OwnerName, by client: Client, at now: Moment
  ) throws(EngineError) {
    guard var appearance = push.appearance else { return }
    appearance.owner = .scope(scope)
    _ = try insertPage(push.page, appearance, isBound: true, by: client, at: now)
  }

  /// Makes the page of a stack appear unless it is visible.
  func pushedPageAppears(_ key: [UInt8], at now: Moment) {
    guard let index = pushedPage(key, at: now), !pages[index].machine.isVisible else { return }
    let options = pages[index].options
    var machine = pages[index].machine
    let isNew = machine.appear(options.refresh, timeout: options.timeout, at: now.boot)
    appeared(index, machine, isBack: true, isNew: isNew, at: now)
    guard machine.isAnimated else { return }
    let client = Client(connection: 0, uid: pages[index].uid)
    do throws(EngineError) {
      let hud = try hudToShow(for: options, by: client, at: now)
      takeLease(of: index, hud, by: client, at: now)
    } catch {
      // The page loads without a HUD: there is no request to refuse.
    }
  }

  /// Makes the page of a stack disappear when it is covered or leaves the stack.
  func pushedPageDisappears(_ key: [UInt8], at now: Moment) {
    // Unlike `pushedPage`, this finds pages that are about to end with their scopes.
    if let index = pages.find(key), pages[index].isBound { disappear(index, at: now) }
  }

  private func pushedPage(_ key: [UInt8], at now: Moment) -> UInt32? {
    guard let index = pages.find(key), pages[index].isBound,
      PageKind.runDueLocally(index, in: self, at: now)
    else { return nil }
    return index
  }

  fileprivate func runDue(stackOfPage index: UInt32, at now: Moment) {
    if let stack = stack(ofPage: index, at: now) { _ = runDue(stack: stack, at: now) }
  }

  /// Returns the stack of a bound page; nil if there is none.
  fileprivate func stack(ofPage index: UInt32, at now: Moment) -> UInt32? {
    guard let page = pages.entity(at: index), page.isBound, case .scope(let scope) = page.owner,
      scopes.isOpen(scope, at: now.boot, connections)
    else { return nil }
    return scopes.table[scope.index].stack
  }

  // MARK: Time and owners

  /// Returns the page with this key, after running what is due for it and its HUD.
  private func currentPage(_ key: Span<UInt8>, at now: Moment) -> UInt32? {
    guard let index = current(PageKind.self, key, at: now) else { return nil }
    if pages[index].lease != nil, let hud = huds.find(pages[index].options.screen) {
      _ = HUDKind.runDue(hud, in: self, at: now)
    }
    return index
  }

  /// Runs what is due for the pages that hold a HUD, in the order of their deadlines.
  func runDuePages(wantingHUD hud: UInt32, at now: Moment) {
    for case .page(let name) in huds.entity(at: hud)?.owners ?? [] {
      runDue(stackOfPage: name.index, at: now)
    }
    var due: [(deadline: Instant, page: UInt32)] = []
    for case .page(let name) in huds.entity(at: hud)?.owners ?? [] {
      guard let page = pages.entity(at: name.index), page.lease == name,
        let deadline = page.machine.nextExpiry, deadline <= now.boot
      else { continue }
      due.append((deadline, name.index))
    }
    for (_, page) in due.sorted(by: { $0.deadline < $1.deadline }) {
      _ = PageKind.runDue(page, in: self, at: now)
    }
  }

  // MARK: The HUD

  /// Returns whether a page still holds the HUD that it requested.
  func isAlive(lease name: OwnerName, at now: Moment) -> Bool {
    guard let entity = pages.entity(at: name.index), entity.lease == name else { return false }
    return isAlive(entity.owner, at: now)
  }

  /// Returns the options of the HUD that a page shows while an animated load is visible.
  private func request(for options: PageOptions) -> Presentation.Request {
    var request = settings.presentation
    request.kind = .loading
    request.grace = options.grace
    request.minimum = options.minimum
    return request
  }

  /// Returns the HUD of the page's screen, if there is one. Throws if the page cannot show one.
  private func hudToShow(
    for options: PageOptions, by client: Client, adding others: Int = 0, at now: Moment
  ) throws(EngineError) -> UInt32? {
    try hudToShow(
      on: options.screen, .normal, request(for: options), by: client, adding: others, at: now)
  }

  /// Throws if a page would release a durable HUD while state cannot be stored.
  private func checkWritable(leaseOf index: UInt32) throws(EngineError) {
    guard pages[index].lease != nil else { return }
    try checkWritable(hud: huds.find(pages[index].options.screen), .normal)
  }

  /// Shows the HUD if an animated load is visible and has none yet.
  ///
  /// - Parameter hud: the result of `hudToShow`.
  private func takeLease(
    of index: UInt32, _ hud: UInt32?, by client: Client, at now: Moment
  ) {
    let entity = pages[index]
    guard entity.machine.isAnimated, entity.machine.isVisible, entity.lease == nil else { return }
    let name = OwnerName(key: entity.key, index: index, generation: entity.generation)
    pages[index].lease = name
    show(
      hud, on: entity.options.screen, .normal, request(for: entity.options), owner: .page(name),
      by: client, at: now)
  }

  /// Releases the page's HUD: the page is done with it (`isDone`), or its owner has closed.
  ///
  /// - Parameter due: the deadline behind the release, if any; later HUD steps do not run first.
  fileprivate func endLease(
    of index: UInt32, isDone: Bool, asOf due: Instant? = nil, at now: Moment
  ) {
    guard let name = pages[index].lease else { return }
    let screen = pages[index].options.screen
    if let hud = huds.find(screen), runDue(hud: hud, upTo: due ?? now.boot, at: now) {
      if isDone {
        endHold(of: .page(name), onHUD: hud, at: now)
      } else {
        releaseHolds(hud, of: [.page(name)], at: now)
      }
    }
    pages[index].lease = nil
  }

  // MARK: Steps

  private func insertPage(
    _ key: [UInt8], _ appearance: PageAppearance, isBound: Bool = false, by client: Client,
    at now: Moment
  ) throws(EngineError) -> PageView {
    let options = self.options(of: key, appearance)
    let hud = try hudToShow(for: options, by: client, adding: 1, at: now)
    let owner = appearance.owner ?? .none
    let index = insert(
      PageKind.self,
      PageEntity(
        key: key, machine: PageLoad(timeout: options.timeout, at: now.boot),
        generation: newGeneration(), owner: owner, uid: client.uid, options: options,
        isBound: isBound))
    publish(PageKind.self, index, .didAppear, at: now)
    publish(PageKind.self, index, .loading, at: now)
    takeLease(of: index, hud, by: client, at: now)
    arm(PageKind.self, index)
    return PageView(pages[index], at: now)
  }

  private func options(of page: [UInt8], _ appearance: PageAppearance) -> PageOptions {
    var options = PageOptions(
      timeout: settings.pageTimeout, screen: page, grace: settings.presentation.grace,
      minimum: settings.presentation.minimum)
    appearance.apply(to: &options)
    return options
  }

  private func change(
    _ key: Span<UInt8>, _ generation: Generation?, _ event: Event.Name,
    at now: Moment, _ body: (inout PageLoad) -> Reason?
  ) throws(EngineError) -> PageAnswer {
    guard let index = currentPage(key, at: now) else { throw .notFound }
    try check(generation, against: pages[index].generation)
    var machine = pages[index].machine
    if let refusal = body(&machine) { return (refusal, PageView(pages[index], at: now)) }
    try checkWritable(leaseOf: index)
    pages[index].machine = machine
    publish(PageKind.self, index, event, at: now)
    endLease(of: index, isDone: true, at: now)
    arm(PageKind.self, index)
    return (nil, PageView(pages[index], at: now))
  }
}
