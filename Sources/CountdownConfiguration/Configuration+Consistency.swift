extension Configuration {
  /// The longest that a countdown may take.
  private static let longestCountdown = Duration.seconds(3_650 * 86_400)

  /// What is wrong with settings beside each other, though each may be so by itself. `file` is only
  /// named in the problems.
  func inconsistencies(file: String) -> [ConfigurationProblem] {
    guard countdown.every * countdown.count > Self.longestCountdown else { return [] }
    return [
      ConfigurationProblem(
        file: file, setting: "countdown.count",
        message: "\(countdown.count) steps of countdown.every are longer than 3650d together; "
          + "allowed: at most that")
    ]
  }
}
