import Countdowns

/// A naive model of one kind of entity, with which the engine is compared.
///
/// A model generates commands, executes them on the engine, and predicts the answer and the events.
/// It knows its keys by number; `Player` does the rest.
package protocol Model {
  associatedtype Command
  /// The fields of a view that are compared.
  associatedtype Facts: Equatable

  static var kind: EntityKind { get }
  /// The prefix of its keys: one kind may have several models.
  static var keyPrefix: Unicode.Scalar { get }
  /// Whether the moment matters at which the engine notices what is due.
  static var noticeMatters: Bool { get }
  static func configure(_ settings: inout EngineSettings)

  init(keyCount: Int, _ settings: EngineSettings)

  // MARK: Commands

  /// Generates a command.
  func command(_ key: Int, _ world: inout World) -> Command
  /// Executes a command on the engine.
  static func ask(
    _ command: Command, _ key: Span<UInt8>, _ engine: Engine, by client: Client,
    at now: Moment
  ) throws(EngineError) -> Answer<Facts>
  /// Returns whether what is due for a key happens before a command; not if it is refused unseen.
  func settles(_ command: Command, _ key: Int) -> Bool
  /// Returns the expected answer. What is due has happened before.
  mutating func answer(
    _ command: Command, _ key: Int, _ world: inout World
  ) throws(EngineError) -> Answer<Facts>
  /// Commands that end the entity of a key, some time later if need be.
  static var ending: [Command] { get }

  // MARK: Time

  /// Processes what is due for a key; owners that have ended come first.
  mutating func settle(_ key: Int, _ world: World)
  /// Returns when the engine must wake for a key; nil if never.
  func deadline(_ key: Int) -> (clock: TimerClock, microseconds: Int64)?
  /// The keys in the order in which the engine processes what is due.
  var order: [Int] { get }
  /// Returns whether an owner has ended, with an effect that depends on when that is noticed.
  func isTouchy(_ world: World) -> Bool

  // MARK: State

  /// Returns whether the last command may have created an entity, or taken over another user's.
  func adds(_ key: Int, existed: Bool) -> Bool
  func exists(_ key: Int) -> Bool
  /// Returns whether the engine has something of a key, which clients may not see.
  func isCounted(_ key: Int) -> Bool
  /// Returns the views of a key, the front one last.
  func facts(_ key: Int, _ world: World) -> [Facts]
  static func facts(_ subject: any EntityView) -> Facts?
  /// Returns what else of an event is compared, as text.
  static func detail(_ event: SentEvent) -> String?

  // MARK: Events

  /// The expected events since this was last emptied, in order.
  var said: [Said] { get set }
  /// Checks an event that depends on who watched when, and so cannot be predicted.
  /// - Returns: false for other events, and also with a `problem` that says what is wrong.
  mutating func hears(_ event: SentEvent, _ key: Int, _ world: World, problem: inout String?)
    -> Bool
  /// Returns what is wrong with the knowledge of a key's listeners, once nothing is due.
  func problem(ofListenersTo key: Int, _ world: World) -> String?
}

extension Model {
  package static var noticeMatters: Bool { true }
  /// An entity that existed only for a moment has caused an event.
  package func adds(_ key: Int, existed: Bool) -> Bool {
    !existed && (exists(key) || !said.isEmpty)
  }
  package static func configure(_ settings: inout EngineSettings) {}
  package func isCounted(_ key: Int) -> Bool { exists(key) }
  package func settles(_ command: Command, _ key: Int) -> Bool { true }
  package func isTouchy(_ world: World) -> Bool { false }
  package static func detail(_ event: SentEvent) -> String? { nil }
  package mutating func hears(
    _ event: SentEvent, _ key: Int, _ world: World, problem: inout String?
  ) -> Bool { false }
  package func problem(ofListenersTo key: Int, _ world: World) -> String? { nil }
}

package enum Answer<Facts: Equatable>: Equatable {
  case nothing
  case flag(Bool)
  case facts(Facts)
  case decided(StartDecision, Facts)
  /// Whether the command was accepted as the first.
  case reported(isFirst: Bool, Facts)
  case refunded(SendRecord.Refund, Facts)
  case attempted(SendRecord.Attempt, Facts)
  case passed(SendRecord.Pass, Facts)
  case taken(Reason?, Facts)
}

/// The fields of an event that are compared.
package struct Said: Equatable {
  package var name: Event.Name
  package var generation: Generation
  /// When it was due, in microseconds of the entity's clock.
  package var due: Int64?
  package var reason: Reason?
  package var end: Presentation.End?
  package var superseded: Generation?
  package var missed: Int64?
  package var detail: String?

  package init(
    _ name: Event.Name, _ generation: Generation, due: Int64? = nil, reason: Reason? = nil,
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

/// A difference between the engine and a model.
package struct Disagreement: Error, CustomStringConvertible {
  package let description: String
}
