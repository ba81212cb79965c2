import CountdownClient

/// Where the streams of a gateway have read the events. Its text is the `id` of each message, and a
/// cursor of the daemon: with `Last-Event-ID`, the gateway of any host of a fleet continues there.
struct Place {
  /// The name of the daemon's event log with a dot, which is empty without a fleet; nil if it is not
  /// known.
  var log: String?
  /// The newest event of the daemon's own log.
  private var sequence = 0
  /// The positions of the newest events of the fleet by partition, with which they begin.
  private var positions: [Substring: String] = [:]

  init() {}

  var text: String? {
    guard let log else { return nil }
    let own = log + "\(sequence)"
    return positions.isEmpty
      ? own : ([own] + positions.values.sorted()).joined(separator: "-")
  }

  /// Continues after an event, or after those that a snapshot includes.
  mutating func pass(_ event: CountdownEvent) {
    // The servers' log has events of other hosts, too, with the number 0.
    if let seq = event.seq, seq > 0 { sequence = seq }
    if let position = event.sharedPosition {
      positions[position.prefix { $0 != "." }] = position
    }
  }

  /// Returns the name of the event log, with a dot, in a cursor of the daemon.
  static func log(in cursor: String) -> String {
    let head = cursor.prefix { $0 != "-" }
    return head.firstIndex(of: ".").map { String(head[...$0]) } ?? ""
  }
}

extension CountdownEvent {
  /// The position of an event that hosts of a fleet share; nil for others.
  var sharedPosition: String? {
    fields["position"]?.string.flatMap { $0.utf8.contains(UInt8(ascii: ".")) ? $0 : nil }
  }
}

/// The newest event that a snapshot includes.
struct SnapshotPoint {
  private let seq: Int
  private let position: String?

  init(_ snapshot: CountdownEvent) {
    seq = snapshot.seq ?? .max
    position = snapshot.sharedPosition
  }

  /// Returns whether the snapshot includes an event of the same channel.
  func includes(_ event: CountdownEvent) -> Bool {
    guard let own = event.sharedPosition, let position else { return event.seq ?? 0 <= seq }
    // PARTITION.EPOCH.NUMBER, and what tells entries of one number apart.
    let (parts, last) = (own.split(separator: "."), position.split(separator: "."))
    guard parts.count > 2, last.count > 2, parts[..<2] == last[..<2], let number = Int(parts[2]),
      let newest = Int(last[2])
    else { return true }
    return number <= newest
  }
}
