import DequeModule
import Wire

/// One part of the shared records, on one server at a time.
final class FleetPartition {
  /// Whether the server can be reached.
  var isConnected = false
  /// Whether the partition was opened on its server, so that requests can be sent.
  var isOpen = false
  /// Why the partition cannot be opened; nil if nothing is known against it.
  var problem: String?
  /// Why the server does not open it; nil if it does, or has not answered.
  var closure: FleetClosure?
  /// Why the server refuses to write; nil if it does not.
  var refusal: FleetRefusal?
  /// When the server last wrote for a heartbeat, on the boot clock.
  var written: Int64 = 0
  private(set) var epoch: [UInt8] = []
  /// The epoch that an earlier daemon of this host has found.
  var remembered: [UInt8] = []
  /// Tells epochs apart in cursors.
  private(set) var epochDigest: Int64 = 0
  /// The time on the server's clock until which changes are refused, as records were lost.
  var refusedUntil: Int64 = 0
  var clock: ServerClock
  /// The number of the stream entry that was read last, and its version, if known.
  var position: Int64 = 0
  var lastVersion: FleetVersion?
  var place: FleetPlace {
    FleetPlace(position: position, version: lastVersion, loading: loading)
  }
  var isFollowed = false

  func take(epoch: [UInt8]) {
    let digest = SipHash(key: (0, 0))(epoch.span, compression: 2, finalization: 4)
    (self.epoch, epochDigest) = (epoch, Int64(UInt32(truncatingIfNeeded: digest)))
  }

  /// Whether the records that this host knew are lost, as the server's epoch shows.
  func isLost(by epoch: [UInt8]) -> Bool { !known.isEmpty && known != epoch }

  /// The epoch that this host knows; empty if it knows none.
  var known: [UInt8] { epoch.isEmpty ? remembered : epoch }

  /// This daemon's copies of the partition's records.
  var copies: [FleetKey: FleetCopy] = [:]
  /// Counts the loadings of all records, the one under way included.
  var loading = 0
  var isLoading = false
  /// The keys whose records answers have brought before the stream. A server that takes over may
  /// lack these records, and the stream does not tell.
  var ahead: Set<FleetKey> = []
  /// What the stream has removed since the loading under way began.
  var removed: Set<FleetKey> = []
  /// Whether this host is the keeper, which has copies of all records.
  var isKept = false
  /// Whether subscribers may have missed changes before the loading under way.
  var hasMissed = false
  /// Whether all that this host keeps has been loaded at least once.
  var hasCopies = false
  /// Whether something was decided without the server since the last loading began.
  var hasLocalChanges = false
  /// The number of commands in a row without an answer in time.
  var failures = 0
  /// Commands that wait until the partition is open.
  var parked: Deque<FleetOperation> = []
  /// Entities with due work that waits until the partition can be used.
  var due: Deque<FleetKey> = []
  /// The number of the newest change that this daemon has reported as accepted.
  var confirmed: Int64 = 0
  /// The end of the longest cooldown and of the longest refill of a limit that was ever seen, in
  /// microseconds on the server's clock.
  var blockedUntil: Int64 = 0
  /// Until when the host remembers that.
  var rememberedUntil: Int64 = 0
  /// Whether this host has a lease here, to be renewed.
  var hasLease = false
  /// The hosts whose lease is over.
  var over: Set<UInt32> = []
  /// When owners of this host lost something here, on the boot clock, until the server says that
  /// the lease was not over then.
  var losses: [UInt64: Int64] = [:]
  /// The records that the loading under way could not read, and the first of them.
  var unreadable: (count: Int, first: FleetKey?) = (0, nil)

  init(_ clock: ServerClock) { self.clock = clock }

  var isBroken: Bool { failures >= Fleet.maximumFailures }
  var isUsable: Bool { isOpen && !isBroken && !clock.isTooFarAhead && refusal == nil }

  /// Releases commands that have ended. All wait for the same time, so they end in order.
  func forgetParked() { while let first = parked.first, first.isOver { parked.removeFirst() } }
}

/// A daemon's place in a stream.
struct FleetPlace {
  let position: Int64
  let version: FleetVersion?
  let loading: Int
}

/// Opens, follows and loads partitions.
extension Fleet {
  // MARK: What the link calls

  /// Opens partitions whose server can be reached.
  package func connected(_ partitions: [Int], at boot: Int64) {
    for index in partitions {
      self.partitions[index].isConnected = true
      self.partitions[index].problem = nil
      self.partitions[index].isFollowed = false
      open(index)
    }
  }

  package func disconnected(_ partitions: [Int]) {
    for index in partitions {
      self.partitions[index].isConnected = false
      self.partitions[index].isOpen = false
      self.partitions[index].closure = nil
      self.partitions[index].isFollowed = false
    }
  }

  /// Ends at once what waits for partitions that cannot be opened.
  package func cannotConnect(_ partitions: [Int], _ problem: String) {
    for index in partitions { fail(index, problem) }
    dispatcher.deliver()
  }

  /// Notes why a partition cannot be opened, and ends the commands that wait for it.
  func fail(_ index: Int, _ problem: String) {
    let partition = partitions[index]
    partition.problem = problem
    guard !partition.isOpen else { return }
    resuming.append(contentsOf: partition.parked)
    partition.parked = []
    resume(Self.stepsAtOnce)
  }

  /// Notes whether the server of a partition carries out changes.
  func noteRefusal(in answer: FleetAnswer, of index: Int, isOpening: Bool) {
    let partition = partitions[index]
    switch answer.body {
    case .changed: partition.refusal = nil
    case .opened:
      partition.refusal = answer.refusal
      if answer.refusal == nil { partition.written = boot }
    case .failed:
      guard let refusal = answer.refusal else { return }
      partition.refusal = refusal
      if isOpening, !refusal.isPassing { fail(index, Self.text(refusal)) }
    default: break
    }
  }

  static func text(_ refusal: FleetRefusal) -> String { "the server refuses it: \(refusal.text)" }

  /// Applies entries of a partition's stream, in their order.
  package func receive(_ entries: [FleetEntry], of index: Int) {
    let now = dispatcher.host.now
    for entry in entries {
      let position = partitions[index].position
      guard entry.number > position else { continue }
      // The stream dropped entries before they were read here.
      // What follows brings the version of the place.
      guard entry.number == position + 1 else { return reload(index, after: entry.number - 1, nil) }
      partitions[index].position = entry.number
      partitions[index].lastVersion = entry.version
      // Later decisions on this record must not use an earlier time than the one that wrote it.
      if let time = entry.time {
        partitions[index].clock.note(atLeast: time, at: now.boot.microseconds)
      }
      statistics.entries += 1
      lanes[entry.key]?.newest = (entry.number, partitions[index].loading)
      if entry.record == nil, partitions[index].isLoading {
        partitions[index].removed.insert(entry.key)
      }
      // If the answer to a change of this host was lost, only the stream tells what it owns now.
      if wants(entry.key, in: index) || entry.version.daemon == daemon {
        setCopy(
          entry.key, entry.record.map { FleetRecord(entry.version, $0) }, number: entry.number,
          of: index, at: now)
      } else {
        noteEnd(of: entry, in: index, at: now)
      }
      let newest = partitions[index].copies[entry.key]?.number ?? 0
      if entry.number >= newest { partitions[index].ahead.remove(entry.key) }
      if !entry.events.isEmpty {
        var place = partitions[index].eventPlace
        dispatcher.engine.publishShared(entry.events) {
          place.event = $0
          return EventCursor.position(index, place)
        }
      }
    }
    passTurns()
    continueReadings(at: now.boot.microseconds)
    dispatcher.deliver()
  }

  package func load(_ records: [(FleetKey, FleetRecord)], of index: Int) {
    let now = dispatcher.host.now
    let partition = partitions[index]
    for (key, record) in records where wants(key, in: index) {
      // What the stream has brought meanwhile is newer.
      if partition.removed.contains(key) { continue }
      if let copy = partition.copies[key], copy.number > 0, copy.loading == partition.loading {
        continue
      }
      setCopy(key, record, number: 0, of: index, at: now)
    }
  }

  package func endLoading(_ index: Int) {
    let loading = partitions[index].loading
    for (key, copy) in partitions[index].copies where copy.loading != loading {
      stale.append((index, loading, key))
    }
    stale.append((index, loading, nil))
    sweep(Self.stepsAtOnce)
  }

  /// Removes copies that a loading has not found, and ends that loading.
  func sweep(_ budget: Int) {
    let now = dispatcher.host.now
    for _ in 0..<budget {
      guard let (index, loading, key) = stale.popFirst() else { return }
      let partition = partitions[index]
      guard partition.loading == loading else { continue }
      if let key {
        guard let copy = partition.copies[key], copy.loading != loading else { continue }
        setCopy(key, nil, number: 0, of: index, at: now)
        continue
      }
      partition.hasCopies = true
      partition.isLoading = false
      partition.removed = []
      statistics.loadings += 1
      if let first = partition.unreadable.first {
        let count = partition.unreadable.count
        dispatcher.host.note(.fleet(.unreadable(partition: index, count: count, first: first)))
      }
      // Early subscribers have seen no entities yet; others may have missed events.
      if !partitions.contains(where: \.isLoading), partitions.contains(where: \.hasMissed) {
        for partition in partitions { partition.hasMissed = false }
        sendSnapshotsAgain(at: now)
      }
    }
  }

  /// Notes a record that cannot be read. Commands about its key report it.
  package func noteUnreadable(_ key: FleetKey, of index: Int) {
    partitions[index].unreadable.count += 1
    if partitions[index].unreadable.first == nil { partitions[index].unreadable.first = key }
  }

  private func sendSnapshotsAgain(at now: Moment) {
    dispatcher.engine.eventLog.noteGap(through: dispatcher.engine.newSequence())
    dispatcher.engine.sendSnapshotsAgain(of: kinds, at: now)
    dispatcher.deliver()
  }

  // MARK: Opening

  func open(_ index: Int, for founding: FleetFounding? = nil) {
    let partition = partitions[index]
    var opening = FleetOpening(
      known: partition.known, new: newVersion().bytes, refusal: refusal,
      position: partition.position)
    opening.beginning = founding?.beginning
    if partition.hasLease { opening.lease = hostNumber }
    opening.keeping = keeping(index)
    if index == 0 {
      // A daemon that has just started, or has new policies, sets the digest for all others.
      let digest = policiesDigest
      opening.policies = digest
      opening.setsPolicies = digest != lastPolicies
      lastPolicies = digest
    }
    send(.open(opening), to: index, for: nil, founding: founding)
  }

  /// A digest of what CONFIG GET prints of the policies: equal on hosts with equal policies,
  /// whichever build they run.
  private var policiesDigest: [UInt8] {
    let policies = dispatcher.host.configuration.filter {
      $0.name.hasPrefix("policies.") || $0.name.hasPrefix("throttles.")
    }
    let text = policies.map { "\($0.name) \($0.value)\n" }.joined()
    let digest = SipHash(key: (0, 0))(text.utf8.span, compression: 2, finalization: 4)
    return Array(String(digest, radix: 16).utf8)
  }

  func compare(_ policies: [UInt8]) {
    let differ = !policies.isEmpty && policies != lastPolicies
    if differ, !policiesDiffer { dispatcher.host.note(.fleet(.policiesDiffer)) }
    if !policies.isEmpty { policiesDiffer = differ }
  }

  /// How long a loss of records can matter, in microseconds: the longest window, cooldown or block
  /// of the rules. What was seen besides is in `blockedUntil`.
  private var refusal: Int64 {
    let policies = dispatcher.engine.settings.policies.values
    let limits = dispatcher.engine.settings.throttles.values
    return max(
      policies.map { max($0.longest, $0.longestCooldown).microseconds }.max() ?? 0,
      limits.map { max($0.longest, $0.rules.passed?.block ?? .zero).microseconds }.max() ?? 0)
  }

  func opened(
    _ index: Int, from place: FleetPlace, epoch: [UInt8], number: Int64, refusedUntil: Int64,
    atPosition: FleetVersion?, newest: FleetVersion?, leases: FleetLeases
  ) {
    guard partitions[index].isConnected else { return }
    let partition = partitions[index]
    partition.refusedUntil = refusedUntil
    partition.failures = 0
    partition.problem = nil
    let isNew = partition.epoch.isEmpty
    let isLost = partition.isLost(by: epoch)
    if isLost {
      statistics.losses += 1
      dispatcher.host.note(.fleet(.lost(partition: index, refusedUntil: refusedUntil)))
    }
    let isOfThisLoading = place.loading == partition.loading
    // The stream has forked: another server has taken over that lacks the last entries.
    let hasFork =
      isOfThisLoading
      && (number < place.position
        || place.version != nil && atPosition != nil && atPosition != place.version)
    // The stream has dropped that entry. Who follows it notices what is missing, if anything is.
    let hasGap =
      isOfThisLoading && place.version != nil && atPosition == nil && !partition.isFollowed
    if hasFork, !isLost { noteFork(index, from: place, number, atPosition) }
    if epoch != partition.known { mustRemember = true }
    partition.take(epoch: epoch)
    let becomesKeeper = take(leases, asKeeperOf: index)
    if isNew || isLost || hasFork { partition.confirmed = 0 }
    if isNew || isLost || hasFork || hasGap {
      reload(index, after: number, newest)
    } else if partition.hasLocalChanges || partition.isLoading && !partition.isFollowed {
      // Load again after local decisions, or after an interrupted loading.
      let isAhead = partition.position > number
      reload(
        index, after: max(number, partition.position), isAhead ? partition.lastVersion : newest)
    } else {
      if !partition.isFollowed {
        follow(index)
        if !partition.ahead.isEmpty { fetch(partition.ahead) }
      }
      // Its subscribers have missed nothing.
      if becomesKeeper { beginLoading(index) }
    }
    partition.isOpen = true
    partition.closure = nil
    resuming.append(contentsOf: partition.parked)
    partition.parked = []
    if partition.isUsable {
      let later = boot + Self.grace
      for key in partition.due { look(at: key, at: later) }
      partition.due = []
    }
    resume(Self.stepsAtOnce)
  }

  /// Reports that a server has taken over without the newest changes.
  private func noteFork(
    _ index: Int, from place: FleetPlace, _ number: Int64, _ version: FleetVersion?
  ) {
    let confirmed = partitions[index].confirmed
    statistics.forks += 1
    // If the entry at this place is another one, at least that one is lost.
    let common = number < place.position ? number : place.position - 1
    dispatcher.host.note(
      .fleet(
        .behind(
          partition: index, entries: place.position - common,
          confirmed: max(0, confirmed - common))))
  }

  /// - Parameter version: that of the entry with this number; nil if it is not known.
  private func reload(_ index: Int, after number: Int64, _ version: FleetVersion?) {
    partitions[index].position = number
    partitions[index].lastVersion = version
    partitions[index].hasMissed = true
    partitions[index].hasLocalChanges = false
    partitions[index].ahead = []
    follow(index)
    beginLoading(index)
  }

  private func follow(_ index: Int) {
    partitions[index].isFollowed = true
    link.follow(index, after: partitions[index].position)
  }

  // MARK: Copies

  /// - Parameter number: the number of the record's stream entry; 0 if it came otherwise.
  func setCopy(
    _ key: FleetKey, _ record: FleetRecord?, number: Int64, of index: Int, at now: Moment
  ) {
    let partition = partitions[index]
    let known = partition.copies[key]
    // Entry numbers from before the last loading began mean nothing any more.
    let newest = known?.loading == partition.loading ? known!.number : 0
    if number > 0, newest > number { return }
    let isKnown = known != nil && known?.record.version == record?.version
    partition.copies[key] = record.map {
      FleetCopy(
        record: $0, number: max(number, isKnown ? newest : 0), loading: partition.loading,
        owners: known?.owners ?? [])
    }
    if isKnown { return }
    if key.kind == .throttle, let record { noteWriter(of: key, record.version.daemon) }
    if known == nil { use(key, in: index) }
    showCopy(key, of: index, at: now)
    noteOwners(of: key, before: known?.owners ?? [], in: index)
  }

  /// Puts a copy into the engine, where listings, snapshots and the wheel find it.
  func showCopy(_ key: FleetKey, of index: Int, at now: Moment) {
    show(key, partitions[index].copies[key]?.record.bytes, of: index, at: now)
  }

  /// Notes how long a loss of a record would matter, though this host does not keep it.
  private func noteEnd(of entry: FleetEntry, in index: Int, at now: Moment) {
    guard let record = entry.record, entry.key.kind == .countdown || entry.key.kind == .throttle
    else { return }
    show(entry.key, record, of: index, at: now)
    _ = dispatcher.engine.setCopy(entry.key, nil, offset: 0, at: now)
  }

  private func show(_ key: FleetKey, _ record: [UInt8]?, of index: Int, at now: Moment) {
    let boot = now.boot.microseconds
    let offset = partitions[index].clock.offset(at: boot) ?? now.wall.microseconds - boot
    let isReadable = dispatcher.engine.setCopy(key, record, offset: offset, at: now)
    if !isReadable { noteUnreadable(key, of: index) }
    if let end = dispatcher.engine.blockedUntil(key, at: now) {
      partitions[index].blockedUntil = max(partitions[index].blockedUntil, end + offset)
    }
  }
}
