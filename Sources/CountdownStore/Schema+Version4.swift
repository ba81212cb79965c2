extension Schema {
  /// Each row has a sum of its values, see `RowSum`; NULL in rows of older versions.
  static let version4 =
    ["meta", "countdowns", "timers", "huds", "guards", "events"]
    .map { "ALTER TABLE \($0) ADD COLUMN sum INTEGER;" }.joined(separator: "\n")
}
