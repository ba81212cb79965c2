import CountdownConfiguration
import CountdownServer
import CountdownStore
import Countdowns
import Glibc

extension ServerSettings {
  /// Takes what the configuration says, be it at the start or at a reload.
  mutating func take(_ configuration: Configuration) {
    request = configuration.request
    connections = configuration.connections
    engine = configuration.engine
    dispatcher = configuration.dispatcher
    dispatcher.maxRequestLength = request.requestLength
    dispatcher.access = AccessRules(
      connect: Principals(configuration.access.connect),
      admin: Principals(configuration.access.admin),
      keys: configuration.access.rules.sorted { $0.key < $1.key }.map(KeyRule.init),
      daemonUser: geteuid())
    shown = configuration.settings
    if configuration.durability != .none {
      var options = Store.Options(
        directory: configuration.stateDirectory, durability: configuration.durability,
        product: "\(Product.name) \(Product.version)")
      options.eventLimit = configuration.engine.eventsKept
      options.eventBytes = configuration.engine.eventBytes
      options.segmentSize = configuration.segmentSize
      state = options
    }
    journal = configuration.journal
    journalDirectory = configuration.stateDirectory + "/journal"
    if configuration.fleet.engine == .redis { fleet = configuration.fleet.settings }
  }
}

extension KeyRule {
  fileprivate init(_ name: String, _ rule: Configuration.Access.Rule) {
    self.init(
      name, who: Principals(rule.who), kinds: rule.kinds ?? EntityKind.allCases,
      keys: rule.keys.map { Array($0.utf8) }, role: rule.role)
  }
}

extension Principals {
  fileprivate init(_ named: Configuration.Access.Principals) {
    self.init(users: Set(named.users.map(\.id)), groups: Set(named.groups.map(\.id)))
  }
}
