import TimerWheel
import Wire

/// A client's request for the events after a cursor: the shared ones come from the servers'
/// streams, as far as this daemon has read them, and the others from its own event log.
final class EventReading {
  let slot: ReplySlot
  let filter: EventFilter
  /// When the client receives a reply although nothing came, on the boot clock.
  var deadline: Int64
  fileprivate var timer: TimerWheel.Token?
  var cursor: EventCursor
  /// How far each stream is read; nil until this daemon is as far as the cursor.
  var targets: [EventCursor.Place]?
  var partition = 0
  /// How many more entries are looked at.
  var budget = 20_000
  var isComplete = true
  var isOver = false
  var page: EventPage

  init(_ call: borrowing Call, _ cursor: EventCursor, _ filter: EventFilter, deadline: Int64) {
    slot = call.session.awaitReply(isBarrier: false)
    self.filter = filter
    self.deadline = deadline
    self.cursor = cursor
    page = EventPage(call.session)
  }

  var hasRoom: Bool { page.hasRoom && page.count < filter.limit && budget > 0 }
}

struct FleetReadings {
  /// The ID of this daemon's event log in cursors.
  let log: Int64
  fileprivate var underWay: [EventReading] = []

  init(of log: Int64) { self.log = log }
}

extension FleetPartition {
  /// Where this daemon has published the events of the stream.
  var eventPlace: EventCursor.Place {
    EventCursor.Place(
      epoch: epoch.digest, number: stream.position, version: stream.version?.digest)
  }
}

extension Fleet {
  private static let entriesAtOnce = 200

  /// A cursor after all events that this daemon has published.
  var cursor: EventCursor {
    var cursor = EventCursor(after: dispatcher.engine.lastSequence, of: readings.log)
    for (index, partition) in partitions.enumerated() where !partition.epoch.id.isEmpty {
      cursor.places[index] = partition.eventPlace
    }
    return cursor
  }

  /// Returns up to where this daemon has published the events of a shared entity.
  func position(of key: FleetKey) -> String? {
    guard shares(key.kind) else { return nil }
    let index = partition(of: key)
    guard !partitions[index].epoch.id.isEmpty else { return nil }
    return EventCursor.position(index, partitions[index].eventPlace)
  }

  /// Takes a request for events. Its reply comes later.
  func readEvents(_ call: borrowing Call, after cursor: EventCursor, _ filter: EventFilter) {
    let reading = EventReading(
      call, cursor, filter, deadline: boot + settings.timeout.microseconds)
    readings.underWay.append(reading)
    limit(reading)
    proceed(reading)
  }

  /// Continues with requests that wait until this daemon is as far as their cursor.
  func continueReadings() {
    for reading in readings.underWay where reading.targets == nil { proceed(reading) }
  }

  private func limit(_ reading: EventReading) {
    times.arm(&reading.timer, .reading(reading), at: reading.deadline)
  }

  func proceed(_ reading: EventReading) {
    let isLate = reading.deadline <= boot
    if reading.targets == nil, partitions.allSatisfy({ $0.health.isOpen && $0.stream.isFollowed }),
      isLate || isAsFar(as: reading.cursor)
    {
      begin(reading)
      return readOn(reading)
    }
    if isLate { fail(reading) }
  }

  private func isAsFar(as cursor: EventCursor) -> Bool {
    cursor.places.allSatisfy { index, place in
      guard index < partitions.count, place.epoch == partitions[index].epoch.digest else {
        return true
      }
      return partitions[index].stream.position >= place.number
    }
  }

  private func begin(_ reading: EventReading) {
    let targets = partitions.map(\.eventPlace)
    reading.targets = targets
    if reading.cursor.log != readings.log {
      // The events of other kinds are on the other host.
      reading.isComplete = reading.filter.isOnly(about: kinds)
      (reading.cursor.log, reading.cursor.sequence) = (readings.log, dispatcher.engine.lastSequence)
    }
    let relevant = reading.filter.entities.map { entities in
      Set(entities.filter { kinds.contains($0.kind) }.map(partition))
    }
    for (index, target) in targets.enumerated() {
      if let relevant, !relevant.contains(index) {
        // What a quiet client has missed here does not matter to it.
        reading.cursor.places[index] = target
        continue
      }
      // Nothing is known of the partition, its records were lost, or a server that lacks these
      // entries has taken over.
      if let place = reading.cursor.places[index], place.mayPrecede(target) { continue }
      reading.isComplete = false
      reading.cursor.places[index] = target
    }
  }

  private func readOn(_ reading: EventReading) {
    reading.deadline = boot + settings.timeout.microseconds
    limit(reading)
    while reading.partition < partitions.count, reading.hasRoom {
      let (index, target) = (reading.partition, reading.targets![reading.partition])
      let place = reading.cursor.places[index]!
      if place.number < target.number || place.event != nil {
        let isIncluded = place.version != nil
        let count = min(Self.entriesAtOnce, reading.filter.limit - reading.page.count)
        return send(
          .entries(
            after: isIncluded ? place.number - 1 : place.number, through: target.number,
            count: isIncluded ? count + 1 : count), to: index, for: .events(reading))
      }
      reading.partition += 1
    }
    finish(reading)
  }

  func receive(_ answer: FleetAnswer, for reading: EventReading, at index: Int) {
    guard !reading.isOver else { return }
    guard case .entries(let entries) = answer.body else { return fail(reading) }
    let before = reading.cursor.places[index]!
    if let version = before.version {
      let first = entries.first
      let isSame = first?.number == before.number && first?.version.digest == version
      if !isSame { reading.isComplete = false }
    }
    for entry in entries {
      guard append(entry, of: index, to: reading) else { return readOn(reading) }
    }
    if reading.cursor.places[index] == before {
      // The stream has dropped the rest.
      reading.isComplete = false
      reading.cursor.places[index] = reading.targets![index]
    }
    readOn(reading)
  }

  /// Returns false if there is no room for all events.
  private func append(_ entry: FleetEntry, of index: Int, to reading: EventReading) -> Bool {
    var place = reading.cursor.places[index]!
    if entry.number > place.number {
      if entry.number > place.number + 1 { reading.isComplete = false }
      place = EventCursor.Place(
        epoch: place.epoch, number: entry.number, version: entry.version.digest, event: -1)
    }
    guard let last = place.event else { return true }
    reading.budget -= 1
    var next = 0
    var isFull = false
    _ = EventCoding.forEach(entry.events) { event in
      defer { next += 1 }
      guard next > last else { return true }
      isFull = !reading.page.hasRoom || reading.page.count >= reading.filter.limit
      guard !isFull else { return false }
      place.event = next
      guard let name = event.name, event.kind.shared?.isInHistory ?? true, name.changesState,
        reading.filter.matches(event.kind, event.key, budget: &reading.budget),
        let line = event.encoded(as: 0, position: EventCursor.position(index, place))
      else { return true }
      reading.page.append(event, line)
      return true
    }
    if !isFull { place.event = nil }
    // Before the first event, the place is still at the entry before.
    if place.event != -1 { reading.cursor.places[index] = place }
    return !isFull
  }

  private func finish(_ reading: EventReading) {
    var hasMore = reading.partition < partitions.count
    if !hasMore {
      let own = reading.filter.read(
        after: reading.cursor.sequence, into: &reading.page, except: kinds)
      reading.cursor.sequence = own.lastSequence
      reading.isComplete = reading.isComplete && own.isComplete
      hasMore = own.hasMore
    }
    end(reading) {
      reading.page.write(
        to: &$0, reading.cursor, isComplete: reading.isComplete, hasMore: hasMore)
    }
  }

  private func fail(_ reading: EventReading) {
    end(reading) { $0.error("UNAVAILABLE the servers' events cannot be read; try again") }
  }

  private func end(_ reading: EventReading, _ write: (inout RESPEncoder) -> Void) {
    reading.isOver = true
    times.cancel(&reading.timer)
    readings.underWay.removeAll { $0 === reading }
    dispatcher.fill(reading.slot, write)
  }
}
