import ArgumentParser
import CountdownClient
import Wire

/// A kind of entity, as countdownctl shows it.
protocol Entity: SendableMetatype {
  associatedtype View: EntityView
  /// The options besides the key that select an entity.
  associatedtype Selector: SelectorOptions = NoSelector
  /// The options that select owners in a list.
  associatedtype Filter: ListFilter = OwnerFilter

  static var kind: CountdownEvent.Kind { get }
  /// The word for an entity in help and messages.
  static var noun: String { get }
  static var plural: String { get }
  /// The argument that names an entity.
  static var argument: ArgumentHelp { get }
  /// The title of the first column of a list.
  static var keyTitle: String { get }
  /// The columns of a list after the key and the state.
  static var columns: [ListColumn<View>] { get }

  /// The condition under which `get` ends with status 1, for its help.
  static var absence: String { get }
  /// The entities that `list` prints, for its help.
  static var listed: String { get }
  static var listExamples: String { get }

  /// Returns the message for a missing entity, and for a subcommand that found nothing to do.
  static func absent(_ key: String) -> String
  static func absent(_ key: String, after verb: String) -> String
  /// Returns a view on one line, after a command changed the entity.
  static func line(_ view: View, style: Style) -> String
  static func line(_ view: View, after verb: String, style: Style) -> String
  /// Returns a reply about several entities; nil if it is about one.
  static func several(_ reply: RESPValue, style: Style) throws -> String?
  /// Returns the details of an event, in a few words each; nil where there is nothing to say.
  static func details(_ event: CountdownEvent) -> [String?]
}

extension Entity {
  static var argument: ArgumentHelp { .init("The \(noun).") }
  static var plural: String { noun + "s" }
  static var keyTitle: String { "KEY" }
  static var absence: String { "there is none" }
  static var listed: String { plural }
  static var listExamples: String { "" }
  static func absent(_ key: String) -> String { "there is no \(noun) '\(key)'" }
  static func absent(_ key: String, after verb: String) -> String { absent(key) }
  static func line(_ view: View, after verb: String, style: Style) -> String {
    line(view, style: style)
  }

  static func several(_ reply: RESPValue, style: Style) throws -> String? { nil }

  /// The first word of the kind's commands.
  static var family: String { kind.rawValue.uppercased() }

  /// The shell completion of a key.
  static var keys: CompletionKind { Completion.keys(family) }

  /// Returns a line of the refusal, the key, the coloured state and all `parts` that are not nil.
  static func line(
    _ view: View, refusal: String? = nil, _ parts: [String?], style: Style
  ) -> String {
    let state = style.state(view.state.rawValue, view.state.rawValue)
    let head = refusal.map { style.yellow("refused: \($0)") }
    return ([head, view.key.printable, state] + parts).compactMap(\.self)
      .joined(separator: "  ") + style.generation(view.generation)
  }
}

/// A column of a list.
struct ListColumn<View> {
  let column: Columns.Column
  let value: (View) -> String

  init(_ title: String, alignRight: Bool = false, value: @escaping (View) -> String) {
    column = .init(title: title, alignRight: alignRight)
    self.value = value
  }
}

extension ListColumn where View: EntityView {
  static var generation: Self { .init("GENERATION", alignRight: true) { String($0.generation) } }
  static var owner: Self { .init("OWNER") { $0.fields["owner"] ?? "" } }
}
