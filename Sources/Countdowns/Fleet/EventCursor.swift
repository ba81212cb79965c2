import Wire

/// Where a client has read the events: for `EVENTS SINCE`, on any host of the fleet.
///
/// Its text is `SEQUENCE` for a daemon alone, and `LOG.SEQUENCE-PLACE-PLACE…` in a fleet. Clients
/// do not look into it, but append the positions of the events that they have read since, after a
/// `-` each: the later ones count.
struct EventCursor: Equatable {
  /// A place in a partition's stream: `PARTITION.EPOCH.NUMBER.VERSION.EVENT`, without the parts at
  /// its end that are not known. Numbers mean the same on all hosts while the epoch stays.
  struct Place: Equatable {
    var epoch: Int64
    /// The entry that was read last.
    var number: Int64
    /// Tells the entry from another one of that number, which a failover can bring.
    var version: Int64?
    /// The last event that was read of the entry; nil if all were.
    var event: Int?

    /// Returns whether a stream that was read up to another place had this one before.
    func mayPrecede(_ other: Place) -> Bool {
      guard epoch == other.epoch, number == other.number else {
        return epoch == other.epoch && number < other.number
      }
      return version == nil || other.version == nil || version == other.version
    }
  }

  static let longest = 1 << 17

  /// The event log that the number is of; nil for that of a daemon without a fleet.
  var log: Int64?
  var sequence: Int64
  var places: [Int: Place] = [:]

  init(after sequence: Int64, of log: Int64? = nil) {
    (self.log, self.sequence) = (log, sequence)
  }

  /// Nil if the text is no cursor.
  init?(_ text: [UInt8]) {
    self.init(after: 0)
    var isFirst = true
    for part in text.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false) {
      let words = part.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
      let numbers = words.compactMap(Self.number)
      guard numbers.count == words.count else { return nil }
      switch (numbers.count, isFirst) {
      case (1, _): sequence = numbers[0]
      case (2, true): (log, sequence) = (numbers[0], numbers[1])
      case (3...5, false):
        guard numbers[0] < 1_024 else { return nil }
        places[Int(numbers[0])] = Place(
          epoch: numbers[1], number: numbers[2], version: numbers.count > 3 ? numbers[3] : nil,
          event: numbers.count > 4 ? Int(numbers[4]) : nil)
      default: return nil
      }
      isFirst = false
    }
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
    guard let first = digits.first, first >= UInt8(ascii: "0") else { return nil }
    return Int64(String(decoding: digits, as: UTF8.self))
  }

  var text: String {
    let own = log.map { "\($0)." } ?? ""
    let places = places.sorted { $0.key < $1.key }.map { "-" + Self.position($0.key, $0.value) }
    return own + "\(sequence)" + places.joined()
  }

  /// Returns the text of a place. As the position of an event, it is equal on all hosts.
  static func position(_ partition: Int, _ place: Place) -> String {
    var text = "\(partition).\(place.epoch).\(place.number)"
    if let version = place.version { text += ".\(version)" }
    if let event = place.event { text += ".\(event)" }
    return text
  }
}

extension FleetVersion {
  /// Tells versions apart in cursors.
  var digest: Int64 { Int64(UInt32(truncatingIfNeeded: daemon ^ operation)) }
}
