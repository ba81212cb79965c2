import Countdowns
import Wire

/// The rules of a section: those that an operator names, such as a policy, and those within them.
extension Array {
  /// Reads a section; reports what is wrong with it.
  func read<Draft>(_ section: ValueReader, into start: Draft) -> Draft
  where Element == Setting<Draft> {
    var draft = start
    let names = map(\.name)
    for (key, value) in section.entries(allowed: names.joined(separator: ", ")) {
      if let rule = first(where: { $0.name == key }) {
        rule.read(&draft, value)
      } else {
        value.reportUnknown(key, known: names)
      }
    }
    return draft
  }

  /// The rules that are given, in the form in which they can be read back.
  func list<Draft>(_ draft: Draft) -> [(name: String, value: String)]
  where Element == Setting<Draft> {
    flatMap { $0.list(draft) }
  }

  /// The JSON Schema of the section.
  func schema<Draft>() -> [RESPValue.Pair] where Element == Setting<Draft> {
    [
      .of("type", "object"), .of("additionalProperties", false),
      .of("properties", .map(map { .of($0.name, .map($0.schema)) })),
    ]
  }
}

extension SettingType {
  /// Sections by name. A later section replaces the whole item of the same name: its rules belong
  /// together.
  ///
  /// - Parameters:
  ///   - item: what a name stands for, as in "a policy".
  ///   - start: what a section without rules means.
  ///   - make: returns the item, or nil after reporting what is wrong with the rules together. It
  ///     is called only if each rule can be read.
  ///   - draft: the rules of an item.
  static func sections<Item, Draft: Sendable>(
    _ item: String, allowed: String, _ rules: [Setting<Draft>], from start: Draft,
    make: @escaping @Sendable (_ name: String, Draft, ValueReader) -> Item?,
    draft: @escaping @Sendable (Item) -> Draft
  ) -> SettingType where Value == [String: Item] {
    SettingType(
      schema: .sections(rules.schema()),
      read: { old, reader in
        var items = old ?? [:]
        for (name, section) in reader.entries(allowed: allowed) {
          let before = section.problems.count
          if !SendPolicy.isName(name) {
            section.report("the name of \(item) has 1 to 64 of letters, digits, '_', '.' and '-'")
          }
          let read = rules.read(section, into: start)
          guard section.problems.count == before, let made = make(name, read, section) else {
            continue
          }
          items[name] = made
        }
        return items
      },
      list: { items in
        items.sorted { $0.key < $1.key }.flatMap { name, item in
          rules.list(draft(item)).map { (".\(name).\($0.name)", $0.value) }
        }
      })
  }
}

extension SettingType where Value == [[UInt8]: Level] {
  /// The highest level of each screen, by its key.
  static var screens: SettingType {
    let rules = [Setting("max-level", \Level.self, .choice())]
    return SettingType(
      schema: .sections(rules.schema()),
      read: { old, reader in
        var levels = old ?? [:]
        for (name, screen) in reader.entries(allowed: "screens, each with max-level") {
          if !(1...EntityRecord.longestKey).contains(name.utf8.count) {
            screen.report("the name of a screen has 1 to \(EntityRecord.longestKey) bytes")
          }
          let key = Array(name.utf8)
          levels[key] = rules.read(screen, into: levels[key] ?? .normal)
        }
        return levels
      },
      list: { levels in
        levels.sorted { $0.key.lexicographicallyPrecedes($1.key) }.flatMap { key, level in
          rules.list(level).map {
            (".\(String(decoding: key, as: UTF8.self)).\($0.name)", $0.value)
          }
        }
      })
  }
}

extension [RESPValue.Pair] {
  fileprivate static func sections(_ section: Self) -> Self {
    [.of("type", "object"), .of("additionalProperties", .map(section))]
  }
}
