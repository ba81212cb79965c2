import CountdownStore
import Countdowns

extension Store.Report {
  /// The contents of the state, line by line.
  var text: String {
    guard schemaVersion > 0 else { return "empty: a daemon starts fresh with it" }
    func count(_ kind: EntityKind) -> Int { counts[kind, default: 0] }
    let lines = """
      schema: \(schemaVersion), last written by \(product)
      countdowns: \(count(.countdown))
      timers: \(count(.timer))
      HUDs: \(count(.hud))
      """
    guard areRowsRead else {
      return lines
        + "\nof an older version, which the next start brings up to date: rows were counted, not read"
    }
    return lines + """

      throttles: \(count(.throttle))
      onces: \(count(.once))
      gates: \(count(.gate))
      debounces: \(count(.debounce))
      """
  }
}
