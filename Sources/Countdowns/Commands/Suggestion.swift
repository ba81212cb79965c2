/// Guesses the intended name from a misspelt one.
package enum Suggestion {
  /// Returns the candidate that is nearest to `name`, or nil if none is near.
  package static func best(for name: String, among candidates: [String]) -> String? {
    let near = max(2, name.count / 3)
    let distances = candidates.map { ($0, distance(name.lowercased(), $0)) }
    guard let best = distances.min(by: { $0.1 < $1.1 }), best.1 <= near else { return nil }
    return best.0
  }

  /// Returns the Levenshtein distance: how many characters must be inserted, removed or replaced to
  /// turn one name into the other. O(a · b).
  static func distance(_ a: String, _ b: String) -> Int {
    let b = Array(b)
    var row = Array(0...b.count)
    for (i, x) in a.enumerated() {
      var diagonal = row[0]
      row[0] = i + 1
      for (j, y) in b.enumerated() {
        let replaced = diagonal + (x == y ? 0 : 1)
        diagonal = row[j + 1]
        row[j + 1] = min(replaced, row[j] + 1, diagonal + 1)
      }
    }
    return row[b.count]
  }
}
