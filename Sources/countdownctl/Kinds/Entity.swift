import ArgumentParser
import CountdownClient

/// A kind of entity, as countdownctl shows it.
protocol Entity: SendableMetatype {
  associatedtype View: EntityView
  /// The options besides the key that select an entity.
  associatedtype Selector: SelectorOptions = NoSelector
  /// The options that select owners in a list.
  associatedtype Filter: ListFilter = OwnerFilter

  static var kind: CountdownEvent.Kind { get }
  /// What its help and messages call an entity.
  static var noun: String { get }
  static var plural: String { get }
  /// The argument that names an entity.
  static var argument: ArgumentHelp { get }
  /// The title of the first column of a list.
  static var keyTitle: String { get }
  /// The columns of a list after the key and the state.
  static var columns: [ListColumn<View>] { get }

  /// When `get` ends with status 1.
  static var absence: String { get }
  /// What `list` lists.
  static var listed: String { get }
  static var listExamples: String { get }

  /// The message where there is no entity of that name.
  static func absent(_ key: String) -> String
  /// A view in one line, after a command changed the entity.
  static func line(_ view: View, style: Style) -> String
  /// An event in a few words.
  static func details(_ event: CountdownEvent) -> [String]
}

extension Entity {
  static var argument: ArgumentHelp { .init("The \(noun).") }
  static var plural: String { noun + "s" }
  static var keyTitle: String { "KEY" }
  static var absence: String { "there is none" }
  static var listed: String { plural }
  static var listExamples: String { "" }
  static func absent(_ key: String) -> String { "there is no \(noun) '\(key)'" }

  /// The first word of its commands.
  static var family: String { kind.rawValue.uppercased() }

  /// What the shell offers for a key.
  static var keys: CompletionKind { Completion.keys(family) }

  /// The key and the coloured state, then what more there is.
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
  static var owner: Self { .init("OWNER") { $0.owner ?? "" } }
}
