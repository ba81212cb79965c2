import Countdowns

/// What one kind of entity must do, done naively: the second opinion about the engine.
///
/// A model says which commands there are, how the engine is asked one, and what the answer and the
/// events must be. It knows its keys by number; `Player` does the rest.
package protocol Model {
  associatedtype Command
  /// What is compared of a view.
  associatedtype Facts: Equatable

  static var kind: EntityKind { get }
  /// What its keys begin with: one kind may have several models.
  static var keyPrefix: Unicode.Scalar { get }
  /// Whether it matters at what moment something due is noticed, and not only that it is.
  static var noticeMatters: Bool { get }
  static func configure(_ settings: inout EngineSettings)

  init(keyCount: Int, _ settings: EngineSettings)

  // MARK: Commands

  /// Makes up a command.
  func command(_ key: Int, _ world: inout World) -> Command
  /// Asks the engine.
  static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts>
  /// Whether what is due for a key happens before a command; not so if it is refused unseen.
  func settles(_ command: Command, _ key: Int) -> Bool
  /// What the engine must answer. What is due has happened before.
  mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts>
  /// A command that ends what a key has, some time later if need be.
  static var ending: [Command] { get }

  // MARK: Time

  /// Lets happen what is due for a key, that owners are gone first.
  mutating func settle(_ key: Int, _ world: World)
  /// When the engine must wake for a key.
  func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)?
  /// The keys in the order in which what is due for them happens.
  var order: [Int] { get }
  /// Whether an owner is gone whose end would be another one some time later.
  func isTouchy(_ world: World) -> Bool

  // MARK: What is so

  /// Whether the command that was answered last may have made an entity, or taken over another
  /// user's.
  func adds(_ key: Int, existed: Bool) -> Bool
  func exists(_ key: Int) -> Bool
  /// The views of a key, the front one last.
  func facts(_ key: Int, _ world: World) -> [Facts]
  static func facts(_ subject: any EntityView) -> Facts?
  /// What else of an event is compared.
  static func detail(_ event: Event) -> String?

  // MARK: Events

  /// What happened since it was last emptied, in order.
  var said: [Said] { get set }
  /// Checks an event that depends on who watched when, and so cannot be foretold; false for others.
  /// - Returns: false also with a `problem` that says what is wrong with it.
  mutating func hears(_ event: Event, _ key: Int, _ world: World, problem: inout String?) -> Bool
  /// What is wrong with what a key's listeners know, once nothing is due.
  func problem(ofListenersTo key: Int, _ world: World) -> String?
}

extension Model {
  package static var noticeMatters: Bool { true }
  /// What was there only for a moment has said so.
  package func adds(_ key: Int, existed: Bool) -> Bool {
    !existed && (exists(key) || !said.isEmpty)
  }
  package static func configure(_ settings: inout EngineSettings) {}
  package func settles(_ command: Command, _ key: Int) -> Bool { true }
  package func isTouchy(_ world: World) -> Bool { false }
  package static func detail(_ event: Event) -> String? { nil }
  package mutating func hears(
    _ event: Event, _ key: Int, _ world: World, problem: inout String?
  ) -> Bool { false }
  package func problem(ofListenersTo key: Int, _ world: World) -> String? { nil }
}

package enum Answer<Facts: Equatable>: Equatable {
  case nothing
  case flag(Bool)
  case facts(Facts)
  case decided(StartDecision, Facts)
  /// Whether it is news.
  case told(isFirst: Bool, Facts)
  case attempted(SendRecord.Attempt, Facts)
  case passed(SendRecord.Pass, Facts)
  case taken(Gate.Refusal?, Facts)
}

/// What is compared of an event.
package struct Said: Equatable {
  package var name: Event.Name
  package var generation: Generation
  /// In microseconds of its own clock.
  package var due: Int64?
  package var reason: Event.Reason?
  package var end: Presentation.End?
  package var superseded: Generation?
  package var missed: Int64?
  package var detail: String?

  package init(
    _ name: Event.Name, _ generation: Generation, due: Int64? = nil, reason: Event.Reason? = nil,
    end: Presentation.End? = nil, superseded: Generation? = nil, missed: Int64? = nil,
    detail: String? = nil
  ) {
    self.name = name
    self.generation = generation
    self.due = due
    self.reason = reason
    self.end = end
    self.superseded = superseded
    self.missed = missed
    self.detail = detail
  }
}

/// Where the engine and a model are not of one mind.
package struct Disagreement: Error, CustomStringConvertible {
  package let description: String
}
