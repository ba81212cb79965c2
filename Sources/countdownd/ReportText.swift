import CountdownStore

extension Store.Report {
  /// What is there, line by line.
  var text: String {
    guard schemaVersion > 0 else { return "empty: a daemon begins anew with it" }
    let counts = """
      schema: \(schemaVersion), last written by \(product)
      countdowns: \(countdowns)
      timers: \(timers)
      HUDs: \(huds)
      """
    guard areRowsRead else {
      return counts
        + "\nof an older version, which the next start brings up to date: rows were counted, not read"
    }
    return counts + """

      throttles: \(guards[.throttle, default: 0])
      onces: \(guards[.once, default: 0])
      gates: \(guards[.gate, default: 0])
      debounces: \(guards[.debounce, default: 0])
      """
  }
}
