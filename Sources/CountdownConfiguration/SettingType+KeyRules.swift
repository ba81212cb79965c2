import Countdowns

extension SettingType where Value == [String: Configuration.Access.Rule] {
  static var keyRules: SettingType {
    sections(
      "a rule", allowed: "rules by name", rules, from: Configuration.Access.Rule(),
      make: { _, rule, section in
        if rule.keys.isEmpty {
          section.report("no keys; add keys: [\"shop:*\"], or keys: [\"*\"] for all")
          return nil
        }
        return rule
      }, draft: \.self)
  }

  private static var rules: [Setting<Configuration.Access.Rule>] {
    let maximumBytes = 1_024
    let everybody = "name at least one, or leave it out for everybody"
    return [
      Setting("users", \.who.users, .users(ifEmpty: everybody)),
      Setting("groups", \.who.groups, .groups(ifEmpty: everybody)),
      Setting(
        "kinds", \.kinds,
        optional: .list(
          of: "one of " + EntityKind.allCases.map { "\($0.name)" }.joined(separator: ", "),
          ifEmpty: "name at least one, or leave it out for all kinds", { "\($0.name)" },
          parse: { text in EntityKind.allCases.first { "\($0.name)" == text } })),
      Setting(
        "keys", \.keys,
        .list(
          of: "a pattern of 1 to \(maximumBytes) bytes, such as \"shop:*\"", \.self,
          parse: { (1...maximumBytes).contains($0.utf8.count) ? $0 : nil })),
      Setting("role", \.role, .choice()),
    ]
  }
}
