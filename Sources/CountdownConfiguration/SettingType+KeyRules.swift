import Countdowns
import Wire

extension SettingType where Value == [String: Configuration.Access.Rule] {
  static var keyRules: SettingType {
    named(
      "rules by name", rules: KeyRuleReader.schema,
      read: { KeyRuleReader(section: $1).rule($0) }, list: { $0.list })
  }
}

/// Reads one rule about keys.
private struct KeyRuleReader {
  private static let names = ["users", "groups", "kinds", "keys", "role"]
  private static let mostBytes = 1_024
  private static let users = SettingType<[Principal]>.users
  private static let groups = SettingType<[Principal]>.groups
  private static let role = SettingType<KeyRule.Role>.choice()
  private static let kinds = SettingType<[EntityKind]>.list(
    of: "one of " + EntityKind.allCases.map { "\($0.name)" }.joined(separator: ", "),
    { "\($0.name)" }, parse: { text in EntityKind.allCases.first { "\($0.name)" == text } })
  private static let keys = SettingType<[String]>.list(
    of: "a pattern of 1 to \(mostBytes) bytes, such as \"shop:*\"", \.self,
    parse: { (1...mostBytes).contains($0.utf8.count) ? $0 : nil })

  /// The members of a rule as properties of a JSON Schema.
  static let schema: [RESPValue.Pair] = [
    .of("users", .map(users.schema)), .of("groups", .map(groups.schema)),
    .of("kinds", .map(kinds.schema)), .of("keys", .map(keys.schema)),
    .of("role", .map(role.schema)),
  ]

  let section: ValueReader

  /// Returns the rule, or nil after reporting all problems.
  func rule(_ name: String) -> Configuration.Access.Rule? {
    let before = section.problems.problems.count
    if !SendPolicy.isName(name) {
      section.report("the name of a rule has 1 to 64 of letters, digits, '_', '.' and '-'")
    }
    var rule = Configuration.Access.Rule()
    for (key, value) in section.entries(allowed: Self.names.joined(separator: ", ")) {
      let earlier = section.problems.problems.count
      var isEmpty = false
      switch key {
      case "users":
        Self.users.read(&rule.who.users, value)
        isEmpty = rule.who.users.isEmpty
      case "groups":
        Self.groups.read(&rule.who.groups, value)
        isEmpty = rule.who.groups.isEmpty
      case "kinds":
        var kinds: [EntityKind] = []
        Self.kinds.read(&kinds, value)
        rule.kinds = kinds
        isEmpty = kinds.isEmpty
      case "keys": Self.keys.read(&rule.keys, value)
      case "role": Self.role.read(&rule.role, value)
      default: value.reportUnknown(key, known: Self.names)
      }
      if isEmpty, section.problems.problems.count == earlier {
        let all = key == "kinds" ? "all kinds" : "everybody"
        value.report("empty; name at least one, or leave it out for \(all)")
      }
    }
    guard section.problems.problems.count == before else { return nil }
    guard !rule.keys.isEmpty else {
      section.report("no keys; add keys: [\"shop:*\"], or keys: [\"*\"] for all")
      return nil
    }
    return rule
  }
}

extension Configuration.Access.Rule {
  /// The members that are given, in the form in which they can be read back.
  fileprivate var list: [(name: String, value: String)] {
    func joined(_ texts: [String]?) -> String? {
      texts.flatMap { $0.isEmpty ? nil : $0.joined(separator: ",") }
    }
    let all = [
      ("users", joined(who.users.map(\.text))), ("groups", joined(who.groups.map(\.text))),
      ("kinds", joined(kinds?.map { "\($0.name)" })), ("keys", joined(keys)),
      ("role", role.rawValue),
    ]
    return all.compactMap { name, value in value.map { (name, $0) } }
  }
}
