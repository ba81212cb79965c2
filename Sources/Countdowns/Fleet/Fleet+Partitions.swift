import Wire

/// Opens, follows and loads partitions.
extension Fleet {
  // MARK: What the link calls

  /// Opens partitions whose server can be reached.
  package func connected(_ partitions: [Int], at boot: Int64) {
    for index in partitions {
      self.partitions[index].health.connect()
      self.partitions[index].stream.isFollowed = false
      open(index)
    }
  }

  package func disconnected(_ partitions: [Int]) {
    for index in partitions {
      self.partitions[index].health.disconnect()
      self.partitions[index].stream.isFollowed = false
    }
  }

  /// Ends at once what waits for partitions that cannot be opened.
  package func cannotConnect(_ partitions: [Int], _ problem: String) {
    for index in partitions { fail(index, problem) }
    dispatcher.deliver()
  }

  /// Notes why a partition cannot be opened, and ends the commands that wait for it.
  func fail(_ index: Int, _ problem: String) {
    partitions[index].health.problem = problem
    if !partitions[index].health.isOpen { resume(partitions[index]) }
  }

  /// Notes whether the server of a partition carries out changes.
  func noteRefusal(in answer: FleetAnswer, of index: Int, to purpose: FleetQuestion.Purpose) {
    let partition = partitions[index]
    switch answer.body {
    case .changed: partition.health.refusal = nil
    case .opened:
      partition.health.refusal = answer.refusal
      if answer.refusal == nil { partition.health.written = boot }
    case .failed:
      guard let refusal = answer.refusal else { return }
      partition.health.refusal = refusal
      if case .opening = purpose, !refusal.isPassing { fail(index, Self.text(refusal)) }
    default: break
    }
  }

  static func text(_ refusal: FleetRefusal) -> String { "the server refuses it: \(refusal.text)" }

  /// Applies entries of a partition's stream, in their order.
  package func receive(_ entries: [FleetEntry], of index: Int) {
    let now = dispatcher.host.now
    let partition = partitions[index]
    for entry in entries where entry.number > partition.stream.position {
      // The stream dropped entries before they were read here.
      // What follows brings the version of the place.
      guard entry.number == partition.stream.position + 1 else {
        return reload(index, after: entry.number - 1, nil)
      }
      partition.stream.read(entry.number, entry.version)
      // Later decisions on this record must not use an earlier time than the one that wrote it.
      if let time = entry.time { partition.clock.note(atLeast: time, at: now.boot.microseconds) }
      statistics.entries += 1
      lanes.note(entry, of: partition.loading.number)
      if entry.record == nil { partition.loading.noteRemoval(of: entry.key) }
      // If the answer to a change of this host was lost, only the stream tells what it owns now.
      if wants(entry.key, in: index) || entry.version.daemon == daemon {
        setCopy(
          entry.key, entry.record.map { FleetRecord(entry.version, $0) }, number: entry.number,
          of: index, at: now)
      } else {
        noteEnd(of: entry, in: index, at: now)
      }
      let newest = partition.copies[entry.key]?.number ?? 0
      if entry.number >= newest { partition.stream.noteReached(entry.key) }
      if !entry.events.isEmpty {
        var place = partition.eventPlace
        dispatcher.engine.publishShared(entry.events) {
          place.event = $0
          return EventCursor.position(index, place)
        }
      }
    }
    passTurns()
    continueReadings()
    dispatcher.deliver()
  }

  // MARK: Opening

  func open(_ index: Int, for founding: FleetFounding? = nil) {
    let partition = partitions[index]
    var opening = FleetOpening(
      known: partition.epoch.known, new: newVersion().bytes, refusal: refusal,
      position: partition.stream.position)
    opening.beginning = founding?.beginning
    if partition.leases.isHeld { opening.lease = owners.host }
    opening.keeping = keeping(index)
    if index == 0 { setPolicies(of: &opening) }
    send(.open(opening), to: index, for: .opening(founding))
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

  func receiveOpening(_ answer: FleetAnswer, of index: Int, from place: FleetPlace) {
    switch answer.body {
    case .opened(let epoch, let number, let until, let version, let newest, let leases):
      // The lease is lost with the records: nobody knows whether it was over.
      if partitions[index].leases.isHeld, partitions[index].epoch.isLost(by: epoch) { loseLease() }
      take(leases, of: index, asked: answer.sent)
      // A server that is not the primary has nothing to tell.
      guard answer.refusal?.isPassing != true else { return }
      opened(
        index, from: place, epoch: epoch, number: number, refusedUntil: until,
        atPosition: version, newest: newest, leases: leases)
      compare(answer.policies)
    case .closed(let closure): close(index, closure)
    default: return
    }
  }

  private func opened(
    _ index: Int, from place: FleetPlace, epoch: [UInt8], number: Int64, refusedUntil: Int64,
    atPosition: FleetVersion?, newest: FleetVersion?, leases: FleetLeases
  ) {
    let partition = partitions[index]
    guard partition.health.isConnected else { return }
    let isNew = partition.epoch.id.isEmpty
    let isLost = partition.epoch.isLost(by: epoch)
    if isLost {
      statistics.losses += 1
      dispatcher.host.note(.fleet(.lost(partition: index, refusedUntil: refusedUntil)))
    }
    let isOfThisLoading = place.loading == partition.loading.number
    // The stream has forked: another server has taken over that lacks the last entries.
    let hasFork =
      isOfThisLoading
      && (number < place.position
        || place.version != nil && atPosition != nil && atPosition != place.version)
    // The stream has dropped that entry. Who follows it notices what is missing, if anything is.
    let hasGap =
      isOfThisLoading && place.version != nil && atPosition == nil
      && !partition.stream.isFollowed
    if hasFork, !isLost { noteFork(index, from: place, number) }
    if epoch != partition.epoch.known { epochs.mustRemember = true }
    partition.epoch.take(epoch, refusedUntil: refusedUntil)
    partition.health.open()
    let becomesKeeper = take(leases, asKeeperOf: index)
    if isNew || isLost || hasFork { partition.stream.forgetConfirmed() }
    if isNew || isLost || hasFork || hasGap {
      reload(index, after: number, newest)
    } else if partition.loading.hasLocalChanges
      || partition.loading.isUnderWay && !partition.stream.isFollowed
    {
      // Load again after local decisions, or after an interrupted loading.
      let isAhead = partition.stream.position > number
      reload(
        index, after: max(number, partition.stream.position),
        isAhead ? partition.stream.version : newest)
    } else {
      if !partition.stream.isFollowed {
        follow(index)
        if !partition.stream.ahead.isEmpty { fetch(partition.stream.ahead) }
      }
      // Its subscribers have missed nothing.
      if becomesKeeper { beginLoading(index) }
    }
    if partition.isUsable {
      let later = boot + Self.grace
      for key in partition.due { look(at: key, at: later) }
      partition.due = []
    }
    resume(partition)
  }

  /// Reports that a server has taken over without the newest changes.
  private func noteFork(_ index: Int, from place: FleetPlace, _ number: Int64) {
    statistics.forks += 1
    // If the entry at this place is another one, at least that one is lost.
    let common = number < place.position ? number : place.position - 1
    dispatcher.host.note(
      .fleet(
        .behind(
          partition: index, entries: place.position - common,
          confirmed: max(0, partitions[index].stream.confirmed - common))))
  }

  /// - Parameter version: that of the entry with this number; nil if it is not known.
  private func reload(_ index: Int, after number: Int64, _ version: FleetVersion?) {
    partitions[index].stream.begin(after: number, version)
    partitions[index].loading.noteGap()
    follow(index)
    beginLoading(index)
  }

  private func follow(_ index: Int) {
    partitions[index].stream.isFollowed = true
    requests.link.follow(index, after: partitions[index].stream.position)
  }
}
