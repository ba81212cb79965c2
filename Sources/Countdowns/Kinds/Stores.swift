/// The stores of all kinds, each by its own type, so nothing is looked up on the way of a command.
struct Stores {
  let countdowns: CountdownStore
  let huds = HUDStore()
  let timers = EntityTable<TimerEntity>()
  let scopes = ScopeStore()
  let throttles = ThrottleStore()
  let onces = EntityTable<GuardEntity<Once>>()
  let gates = EntityTable<GuardEntity<Gate>>()
  let debounces = EntityTable<GuardEntity<Debounce>>()
  let stacks = EntityTable<StackEntity>()
  let pages = EntityTable<PageEntity>()

  init(_ settings: EngineSettings) { countdowns = CountdownStore(settings) }

  var count: Int {
    countdowns.count + huds.count + timers.count + scopes.count + throttles.count + onces.count
      + gates.count + debounces.count + stacks.count + pages.count
  }

  /// What counts towards the limits of entities: also the pages of sends.
  var countForLimits: Int { count + throttles.pages.count }
  /// The bytes of keys that have a limit.
  var keyBytes: Int { countdowns.keyBytes }

  func reload(_ settings: EngineSettings, at now: Moment) {
    countdowns.reload(settings, at: now)
  }
  func releaseUnusedMemory() { countdowns.releaseUnusedMemory() }
  func connectionLeft() { scopes.tree.connectionLeft() }
}

extension Engine {
  var countdowns: CountdownStore { stores.countdowns }
  var huds: EntityTable<HUDEntity> { stores.huds.table }
  var timers: EntityTable<TimerEntity> { stores.timers }
  var scopes: ScopeStore { stores.scopes }
  var throttles: EntityTable<GuardEntity<Throttle>> { stores.throttles.table }
  var onces: EntityTable<GuardEntity<Once>> { stores.onces }
  var gates: EntityTable<GuardEntity<Gate>> { stores.gates }
  var debounces: EntityTable<GuardEntity<Debounce>> { stores.debounces }
  var stacks: EntityTable<StackEntity> { stores.stacks }
  var pages: EntityTable<PageEntity> { stores.pages }

  func store(of kind: EntityKind) -> any EntityStore { kind.behavior.store(of: self) }
}
