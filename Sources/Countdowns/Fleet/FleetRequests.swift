/// What the servers are asked: requests that are not answered yet, by id.
struct FleetRequests {
  let link: any FleetLink
  private var underWay: [UInt64: FleetQuestion] = [:]
  private var last: UInt64 = 0
  fileprivate var hasUnsent = false

  init(_ link: any FleetLink) { self.link = link }

  /// Returns the id of a new request.
  fileprivate mutating func add(_ question: FleetQuestion) -> UInt64 {
    last += 1
    underWay[last] = question
    hasUnsent = true
    return last
  }

  fileprivate mutating func remove(_ id: UInt64) -> FleetQuestion? {
    underWay.removeValue(forKey: id)
  }
}

/// A request that is not answered yet.
struct FleetQuestion {
  enum Purpose {
    case operation(FleetOperation)
    case events(EventReading)
    /// To open the partition.
    case opening(FleetFounding?)
  }

  let partition: Int
  let purpose: Purpose
  /// The place in the stream when the request was sent.
  let place: FleetPlace
}

extension Fleet {
  func send(_ request: FleetRequest, to partition: Int, for purpose: FleetQuestion.Purpose) {
    if case .operation(let operation) = purpose { lanes.noteRequest(about: operation.key) }
    statistics.requests += 1
    let question = FleetQuestion(
      partition: partition, purpose: purpose, place: partitions[partition].place)
    requests.link.send(request, id: requests.add(question), to: partition)
  }

  /// Sends the requests of a batch when it ends.
  package func flush() {
    if epochs.mustRemember { remember() }
    guard requests.hasUnsent else { return }
    requests.hasUnsent = false
    requests.link.flush()
  }

  package func receive(_ answer: FleetAnswer, to id: UInt64, at boot: Int64) {
    guard let question = requests.remove(id) else { return }
    let index = question.partition
    let partition = partitions[index]
    if let engine = answer.engine {
      let wasAhead = partition.clock.isTooFarAhead
      partition.clock.note(engine, sent: answer.sent, received: boot)
      if partition.clock.isTooFarAhead, !wasAhead {
        dispatcher.host.note(.fleet(.clockAhead(partition: index)))
      }
    }
    noteRefusal(in: answer, of: index, to: question.purpose)
    switch question.purpose {
    case .operation(let operation):
      receive(answer, for: operation, at: index, asked: question.place)
      lanes.noteAnswer(about: operation.key)
    case .events(let reading): receive(answer, for: reading, at: index)
    case .opening(let founding):
      receiveOpening(answer, of: index, from: question.place)
      if let founding { take(answer.body, for: founding) }
    }
    dispatcher.deliver()
  }
}
