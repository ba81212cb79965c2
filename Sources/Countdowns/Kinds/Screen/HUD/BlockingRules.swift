/// Decides which requests block interaction while they run, so that no form is submitted twice.
package struct BlockingRules: Equatable, Sendable {
  /// The mask of blocking requests.
  package var mask: Presentation.Mask
  /// Blocking paths, each the part of the URL from the last `/api/` on.
  package var paths: [String] { didSet { pathSet = Set(paths.map(Self.path)) } }
  /// Words that block if the last path segment contains them, as in `UpdateProfile`, `sendCode` or
  /// `/login`.
  package var verbs: [String] { didSet { spelling = Self.spelling(verbs) } }
  private var pathSet: Set<String>
  /// Lower-case words, mapped to their configured spelling.
  private var spelling: [String: String]

  package init(
    paths: [String] = [],
    verbs: [String] = [
      "Create", "Add", "Update", "Delete", "Bind", "Submit", "Save", "Login", "Change", "Set",
      "Edit", "Modify", "Cancel", "Send", "Check", "Audit",
    ],
    mask: Presentation.Mask = .custom
  ) {
    self.paths = paths
    self.verbs = verbs
    self.mask = mask
    pathSet = Set(paths.map(Self.path))
    spelling = Self.spelling(verbs)
  }

  private static func spelling(_ verbs: [String]) -> [String: String] {
    Dictionary(verbs.map { ($0.lowercased(), $0) }) { first, _ in first }
  }

  /// The decision of the rules on a request.
  package struct Verdict: Equatable, Sendable {
    /// The path that the rules compare.
    package var path: String
    /// The path or word that blocks the request; nil if none does.
    package var rule: String?
    package var mask: Presentation.Mask

    package init(path: String, rule: String?, mask: Presentation.Mask) {
      self.path = path
      self.rule = rule
      self.mask = mask
    }
  }

  /// Returns the decision on a URL. Compares whole words (`Address` is not `Add`) and ignores case.
  package func verdict(_ url: String) -> Verdict {
    let path = Self.path(url)
    var rule: String?
    if pathSet.contains(path) {
      rule = path
    } else if let segment = path.split(separator: "/").last {
      rule = Self.words(segment).lazy.compactMap { spelling[$0] }.first
    }
    return Verdict(path: path, rule: rule, mask: rule == nil ? .none : mask)
  }

  /// Returns the URL from the last `/api/` on, or all of it if there is none, without its query,
  /// its fragment and trailing slashes.
  package static func path(_ url: String) -> String {
    var path = url.prefix { $0 != "?" && $0 != "#" }
    // Removing a character of a long path would take O(length) each time; bytes do not.
    let slashes = path.utf8.reversed().prefix { $0 == UInt8(ascii: "/") }.count
    path = path.prefix(upTo: path.utf8.index(path.endIndex, offsetBy: -slashes))
    if slashes > 0, path.isEmpty { return "/" }
    let marker = "/api/"
    var start = path.endIndex
    while let slash = path[..<start].lastIndex(of: "/") {
      if path[slash...].hasPrefix(marker) { return String(path[slash...]) }
      start = slash
    }
    return String(path)
  }

  /// Returns the lower-cased words of a camelCase, snake_case or kebab-case name. The last of
  /// several capitals begins the next word: `SMSSend` is two words.
  private static func words(_ name: Substring) -> [String] {
    var words: [String] = []
    var word = ""
    for character in name {
      if character.isUppercase, word.last?.isLowercase == true {
        words.append(word.lowercased())
        word = ""
      } else if character.isLowercase, let capital = word.last, capital.isUppercase,
        !word.dropLast().isEmpty
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

/// The levels of a screen, from back to front, each with its own presentation.
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
