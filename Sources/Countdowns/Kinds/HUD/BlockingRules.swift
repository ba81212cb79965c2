/// Which requests block interaction while they run, so that a form is not submitted twice.
package struct BlockingRules: Equatable, Sendable {
  /// The mask of requests that block.
  package var mask: Presentation.Mask
  /// Paths that block, from the last `/api/` on.
  private let paths: Set<String>
  /// Words of the last path segment that block: `UpdateProfile`, `sendCode`, `/login`. By their
  /// lower case, as they were given.
  private let verbs: [String: String]

  package static let defaultVerbs = [
    "Create", "Add", "Update", "Delete", "Bind", "Submit", "Save", "Login", "Change", "Set",
    "Edit", "Modify", "Cancel", "Send", "Check", "Audit",
  ]

  package init(
    paths: [String] = [], verbs: [String] = defaultVerbs, mask: Presentation.Mask = .custom
  ) {
    self.paths = Set(paths.map(Self.path))
    self.verbs = Dictionary(verbs.map { ($0.lowercased(), $0) }) { first, _ in first }
    self.mask = mask
  }

  /// What the rules make of a request.
  package struct Verdict: Equatable, Sendable {
    /// What they compare.
    package var path: String
    /// The path or the word that blocks it; nil if nothing does.
    package var rule: String?
    package var mask: Presentation.Mask

    package init(path: String, rule: String?, mask: Presentation.Mask) {
      self.path = path
      self.rule = rule
      self.mask = mask
    }
  }

  /// Words are compared whole (`Address` is not `Add`) and without regard to case.
  package func verdict(_ url: String) -> Verdict {
    let path = Self.path(url)
    var rule: String?
    if paths.contains(path) {
      rule = path
    } else if let segment = path.split(separator: "/").last {
      rule = Self.words(segment).lazy.compactMap { verbs[$0] }.first
    }
    return Verdict(path: path, rule: rule, mask: rule == nil ? .none : mask)
  }

  /// From the last `/api/` on, without it the whole path; without a slash at the end, a query and a
  /// fragment.
  package static func path(_ url: String) -> String {
    var path = url.prefix { $0 != "?" && $0 != "#" }
    while path.count > 1, path.last == "/" { path.removeLast() }
    let marker = "/api/"
    var start = path.endIndex
    while let slash = path[..<start].lastIndex(of: "/") {
      if path[slash...].hasPrefix(marker) { return String(path[slash...]) }
      start = slash
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
