/// Loads records, and has copies of them.
extension Fleet {
  // MARK: Loading

  package func load(_ records: [(FleetKey, FleetRecord)], of index: Int) {
    let now = dispatcher.host.now
    let partition = partitions[index]
    for (key, record) in records where wants(key, in: index) {
      // What the stream has brought meanwhile is newer.
      if partition.loading.removed.contains(key) { continue }
      if let copy = partition.copies[key], copy.number > 0, copy.loading == partition.loading.number
      {
        continue
      }
      setCopy(key, record, number: 0, of: index, at: now)
    }
  }

  package func endLoading(_ index: Int) {
    let loading = partitions[index].loading.number
    for (key, copy) in partitions[index].copies where copy.loading != loading {
      times.add(.removeStale(key, partition: index, loading: loading))
    }
    times.add(.endLoading(partition: index, loading: loading))
    doChores(Self.stepsAtOnce)
  }

  /// Removes a copy that a loading has not found.
  func removeStale(_ key: FleetKey, of index: Int, _ loading: Int) {
    guard partitions[index].loading.number == loading,
      let copy = partitions[index].copies[key], copy.loading != loading
    else { return }
    setCopy(key, nil, number: 0, of: index, at: dispatcher.host.now)
  }

  func endLoading(_ index: Int, _ loading: Int) {
    guard partitions[index].loading.number == loading else { return }
    partitions[index].loading.end()
    statistics.loadings += 1
    let (count, first) = partitions[index].loading.unreadable
    if let first {
      dispatcher.host.note(.fleet(.unreadable(partition: index, count: count, first: first)))
    }
    // Early subscribers have seen no entities yet; others may have missed events.
    if !partitions.contains(where: \.loading.isUnderWay),
      partitions.contains(where: \.loading.hasMissed)
    {
      for partition in partitions { partition.loading.hasMissed = false }
      sendSnapshotsAgain(at: dispatcher.host.now)
    }
  }

  /// Notes a record that cannot be read. Commands about its key report it.
  package func noteUnreadable(_ key: FleetKey, of index: Int) {
    partitions[index].loading.noteUnreadable(key)
  }

  private func sendSnapshotsAgain(at now: Moment) {
    dispatcher.engine.eventLog.noteGap(through: dispatcher.engine.newSequence())
    dispatcher.engine.sendSnapshotsAgain(of: kinds, at: now)
    dispatcher.deliver()
  }

  // MARK: Copies

  /// - Parameter number: the number of the record's stream entry; 0 if it came otherwise.
  func setCopy(
    _ key: FleetKey, _ record: FleetRecord?, number: Int64, of index: Int, at now: Moment
  ) {
    let partition = partitions[index]
    let known = partition.copies[key]
    // Entry numbers from before the last loading began mean nothing any more.
    let newest = known?.loading == partition.loading.number ? known!.number : 0
    if number > 0, newest > number { return }
    let isKnown = known != nil && known?.record.version == record?.version
    partition.copies[key] = record.map {
      FleetCopy(
        record: $0, number: max(number, isKnown ? newest : 0), loading: partition.loading.number,
        owners: known?.owners ?? [])
    }
    if isKnown { return }
    if let record, key.kind.shared?.takesTurns == true {
      turns.note(key, record.version.daemon, at: boot)
    }
    if known == nil { use(key, in: index) }
    show(key, partition.copies[key]?.record.bytes, of: index, at: now)
    noteOwners(of: key, before: known?.owners ?? [], in: index)
  }

  /// Notes how long a loss of a record would matter, though this host does not keep it.
  func noteEnd(of entry: FleetEntry, in index: Int, at now: Moment) {
    guard let record = entry.record, entry.key.kind.shared?.canBlock == true else { return }
    show(entry.key, record, of: index, at: now)
    _ = dispatcher.engine.setCopy(entry.key, nil, offset: 0, at: now)
  }

  /// Puts a record into the engine, where listings, snapshots and the wheel find it.
  private func show(_ key: FleetKey, _ record: [UInt8]?, of index: Int, at now: Moment) {
    let boot = now.boot.microseconds
    let offset = partitions[index].clock.offset(at: boot) ?? now.wall.microseconds - boot
    let isReadable = dispatcher.engine.setCopy(key, record, offset: offset, at: now)
    if !isReadable { noteUnreadable(key, of: index) }
    if let end = dispatcher.engine.blockedUntil(key, at: now) {
      partitions[index].epoch.noteBlock(until: end + offset)
    }
  }
}

/// The loadings of a partition's records.
struct PartitionLoading {
  /// Counts the loadings, the one under way included.
  private(set) var number = 0
  private(set) var isUnderWay = false
  /// Whether all that this host keeps has been loaded at least once.
  private(set) var hasCopies = false
  /// Whether subscribers may have missed changes before the loading under way.
  fileprivate(set) var hasMissed = false
  /// Whether something was decided without the server since the last loading began.
  private(set) var hasLocalChanges = false
  /// What the stream has removed since the loading under way began.
  private(set) var removed: Set<FleetKey> = []
  /// The records that the loading under way could not read, and the first of them.
  private(set) var unreadable: (count: Int, first: FleetKey?) = (0, nil)

  mutating func begin() {
    number += 1
    isUnderWay = true
    removed = []
    unreadable = (0, nil)
  }

  mutating func end() { (hasCopies, isUnderWay, removed) = (true, false, []) }

  mutating func noteGap() { (hasMissed, hasLocalChanges) = (true, false) }
  mutating func noteLocalChange() { hasLocalChanges = true }
  mutating func noteRemoval(of key: FleetKey) { if isUnderWay { removed.insert(key) } }

  mutating func noteUnreadable(_ key: FleetKey) {
    unreadable = (unreadable.count + 1, unreadable.first ?? key)
  }
}

/// This daemon's copy of a shared record.
struct FleetCopy {
  var record: FleetRecord
  /// The number of the stream entry that brought it; 0 if it came otherwise.
  var number: Int64
  /// The number of the partition's loading when the copy was set last.
  var loading: Int
  /// The connections that own the entity, or run its action.
  var owners: [UInt64] = []
}
