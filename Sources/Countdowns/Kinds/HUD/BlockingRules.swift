/// Which requests block interaction while they run, so that a form is not submitted twice.
package struct BlockingRules: Equatable, Sendable {
  /// Paths that block, from `/api/` on.
  package var paths: Set<String>
  /// Words of the last path segment that block: `UpdateProfile`, `sendCode`, `/login`.
  package var verbs: Set<String>

  package static let defaultVerbs = [
    "Create", "Add", "Update", "Delete", "Bind", "Submit", "Save", "Login", "Change", "Set",
    "Edit", "Modify", "Cancel", "Send", "Check", "Audit",
  ]

  package init(paths: [String] = [], verbs: [String] = defaultVerbs) {
    self.paths = Set(paths)
    self.verbs = Set(verbs.map { $0.lowercased() })
  }

  /// Whether a request to `url` blocks. Words are compared whole (`Address` is not `Add`) and
  /// without regard to case.
  package func blocks(_ url: String) -> Bool {
    let path = url.prefix { $0 != "?" && $0 != "#" }
    if paths.contains(Self.relativePath(path)) { return true }
    let segment = path.split(separator: "/").last ?? ""
    return Self.words(segment).contains { verbs.contains($0) }
  }

  /// From `/api/` on, wherever that comes; the whole path without it.
  private static func relativePath(_ path: Substring) -> String {
    let marker = "/api/"
    var rest = path
    while let slash = rest.firstIndex(of: "/") {
      rest = rest[slash...]
      if rest.hasPrefix(marker) { return String(rest) }
      rest = rest.dropFirst()
    }
    return String(path)
  }

  /// The lower-cased words of a camelCase, snake_case or kebab-case name. The last capital of
  /// several begins the next word: `SMSSend` is two.
  private static func words(_ name: Substring) -> [String] {
    var words: [String] = []
    var word = ""
    for character in name {
      if character.isUppercase, word.last?.isLowercase == true {
        words.append(word.lowercased())
        word = ""
      } else if character.isLowercase, word.count > 1, let capital = word.last,
        capital.isUppercase
      {
        words.append(word.dropLast().lowercased())
        word = String(capital)
      }
      if character.isLetter {
        word.append(character)
      } else {
        words.append(word.lowercased())
        word = ""
      }
    }
    words.append(word.lowercased())
    return words.filter { !$0.isEmpty }
  }
}

/// Presentations above others. Each level of a screen has a presentation of its own.
package enum Level: String, CaseIterable, Comparable, Sendable {
  case normal, statusbar, alert

  private var rank: Int {
    switch self {
    case .normal: 0
    case .statusbar: 1
    case .alert: 2
    }
  }

  package static func < (a: Level, b: Level) -> Bool { a.rank < b.rank }
}
