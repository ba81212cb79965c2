import Countdowns

/// Where the newest change of each entity is, in a series of segments: all that has to be applied.
struct NewestChanges {
  fileprivate struct Place: Equatable {
    var segment: Int32
    /// Of the record's bytes in the segment.
    var start: Int32
    /// Negative: it is gone.
    var count: Int32
  }

  private var places: [UInt64: Place] = [:]

  private static func id(_ kind: EntityKind, _ place: UInt32) -> UInt64 {
    UInt64(kind.rawValue) << 32 | UInt64(place)
  }

  var isEmpty: Bool { places.isEmpty }

  func contains(_ kind: EntityKind, _ place: UInt32) -> Bool {
    !places.isEmpty && places[Self.id(kind, place)] != nil
  }

  mutating func note(_ entry: ChangeEntry, inSegment segment: Int) {
    switch entry {
    case .current(let kind, let place, let bytes):
      places[Self.id(kind, place)] = Place(segment, bytes)
    case .gone(let kind, let place):
      places[Self.id(kind, place)] = Place(segment: Int32(segment), start: 0, count: -1)
    case .events, .clocks: break
    }
  }

  /// Whether nothing newer is known of an entity than this entry of a segment.
  func isNewest(
    _ kind: EntityKind, _ place: UInt32, _ bytes: ArraySlice<UInt8>, inSegment segment: Int
  )
    -> Bool
  {
    places[Self.id(kind, place)] == Place(segment, bytes)
  }

  /// The newest change of an entity.
  struct Change {
    let kind: EntityKind
    let place: UInt32
    fileprivate let found: Place

    /// Its record; nil if the entity is gone.
    ///
    /// - Parameter segments: those that the changes were noted of.
    func bytes(in segments: [[UInt8]]) -> ArraySlice<UInt8>? {
      guard found.count >= 0 else { return nil }
      return segments[Int(found.segment)][Int(found.start)..<Int(found.start + found.count)]
    }
  }

  /// By kind and place.
  var all: [Change] {
    places.keys.sorted().map { id in
      Change(
        kind: EntityKind(rawValue: UInt8(id >> 32))!, place: UInt32(truncatingIfNeeded: id),
        found: places[id]!)
    }
  }
}

extension NewestChanges.Place {
  fileprivate init(_ segment: Int, _ bytes: ArraySlice<UInt8>) {
    self.init(
      segment: Int32(segment), start: Int32(truncatingIfNeeded: bytes.startIndex),
      count: Int32(truncatingIfNeeded: bytes.count))
  }
}
