/// What screens have in common.
enum ScreenText {
  /// The time of day in the locale's zone: `14:02:11`.
  static var clock: String {
    WallClock.timeOfDay(unixMilliseconds: WallClock.nowUnixMilliseconds)
  }

  /// A text at each end of a line of so many columns; the right one only where there is room.
  static func ends(
    _ left: String, _ right: String, columns: Int, left paintLeft: (String) -> String,
    right paintRight: (String) -> String
  ) -> String {
    let width = DisplayWidth.of(right)
    guard width > 0, width + 2 < columns else {
      return paintLeft(DisplayWidth.truncate(left, columns))
    }
    return paintLeft(DisplayWidth.fit(left, columns - width - 2)) + "  " + paintRight(right)
  }
}
