/// Text that all screens use.
enum ScreenText {
  /// The local time of day: `14:02:11`.
  static var clock: String {
    WallClock.timeOfDay(unixMilliseconds: WallClock.nowUnixMilliseconds)
  }

  /// Returns a line with a text at each end; without the right one if there is no room for it.
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
