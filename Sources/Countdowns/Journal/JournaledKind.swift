/// A kind whose decisions the journal keeps.
protocol JournaledKind: Kind {
  /// Whether decisions depend on the state of an entity, which is kept before the first of them.
  static var hasState: Bool { get }
  /// Returns the records of an entity, without what decides nothing; none if there is none.
  static func records(_ key: [UInt8], for journal: Journal) -> [[UInt8]]
  /// Notes what else decisions depend on, after the records of an entity.
  static func noteRest(_ key: [UInt8], in journal: Journal, at now: Moment)
  /// Returns a key as the journal keeps it.
  static func conceal(_ key: [UInt8], for journal: Journal) -> [UInt8]
  /// Notes the states that the end of an entity changes.
  static func willEnd(_ key: [UInt8], in journal: Journal, at now: Moment)
}

extension JournaledKind {
  static var hasState: Bool { true }
  static func records(_ key: [UInt8], for journal: Journal) -> [[UInt8]] { [] }
  static func noteRest(_ key: [UInt8], in journal: Journal, at now: Moment) {}
  static func conceal(_ key: [UInt8], for journal: Journal) -> [UInt8] { journal.conceal(key) }

  static func willEnd(_ key: [UInt8], in journal: Journal, at now: Moment) {
    journal.touch(kind, key, at: now)
  }
}

extension EntityKind {
  var journaled: (any JournaledKind.Type)? { Self.journaled[Int(rawValue)] }

  private static let journaled = allCases.map { $0.behavior as? any JournaledKind.Type }
}
