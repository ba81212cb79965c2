import CountdownClient
import NIOCore
import NIOPosix

/// The load of one event loop: its connections, and when each of them sends.
///
/// Unchecked: everything but `init`, `connect` and `inLoop` runs on `loop`.
final class LoadWorker: @unchecked Sendable {
  private let loop: any EventLoop
  private var connections: [LoadConnection] = []
  /// The number of connections that have answered.
  private var answering = 0
  private var wave: (awaited: Int, promise: EventLoopPromise<Void>)?

  private var phase = LoadPhase(keys: 0..<0, stages: [], pipeline: 1)
  /// Keys that no connection has taken yet.
  private var untaken = 0..<0
  /// Keys for which a command was ever sent.
  private(set) var touched = 0..<0
  private var result = LoadResult(stages: [], nanoseconds: 0)
  private var began = NIODeadline.uptimeNanoseconds(0)
  private var finished: EventLoopPromise<LoadResult>?
  private var inFlight = 0
  private(set) var replied = 0
  private var isStopped = false
  /// The number of batches that have become due, if there is a rate.
  private var slots = 0
  /// Whether no more batches become due: connections then send their next batch without a turn.
  private var areSlotsOver = false
  private(set) var failure: CountdownClientError?

  init(loop: any EventLoop) { self.loop = loop }

  /// Runs `body` on the worker's event loop.
  func inLoop<R: Sendable>(_ body: @escaping @Sendable (LoadWorker) -> R) async throws -> R {
    try await loop.submit { body(self) }.get()
  }

  // MARK: Connecting

  /// The number of connections opened at a time, to fit the backlog of a listening socket.
  private static let connectionsAtOnce = 64

  /// Opens connections, and waits until all of them answer.
  func connect(path: String, count: Int) async throws {
    for first in stride(from: 0, to: count, by: Self.connectionsAtOnce) {
      let number = min(Self.connectionsAtOnce, count - first)
      let answered = try await inLoop { worker in
        let promise = worker.loop.makePromise(of: Void.self)
        worker.wave = (worker.answering + number, promise)
        return promise.futureResult
      }
      let opened = (0..<number).map { _ in
        ClientBootstrap(group: loop)
          .channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
              let connection = LoadConnection(worker: self)
              self.connections.append(connection)
              try channel.pipeline.syncOperations.addHandler(connection)
            }
          }
          .connect(unixDomainSocketPath: path)
      }
      do {
        for channel in opened { _ = try await channel.get() }
      } catch {
        let problem = CountdownClientError.connectionFailed(
          path: path, reason: "\(first) connections are open, and then: \(error)")
        // Keeps an earlier error reply, which explains more than the state of the socket.
        try await inLoop { $0.fail(problem) }
      }
      try await answered.get()
    }
  }

  func close() {
    isStopped = true
    for connection in connections { connection.close() }
  }

  // MARK: A phase

  /// Runs a phase; the future fails only when the worker has failed before.
  func run(_ phase: LoadPhase) -> EventLoopFuture<LoadResult> {
    self.phase = phase
    untaken = phase.keys
    slots = 0
    areSlotsOver = phase.rate == nil
    replied = 0
    result = LoadResult(
      stages: phase.stages.map { .init(name: $0.name, latencies: .microseconds) },
      nanoseconds: 0)
    let promise = loop.makePromise(of: LoadResult.self)
    finished = promise
    isStopped = failure != nil
    began = .now()
    if phase.rate == nil {
      for connection in connections { sendNext(connection, since: nil) }
    } else {
      sendDue()
    }
    finishIfDone()
    return promise.futureResult
  }

  /// Stops sending; the phase ends once all commands that were sent have been answered.
  func stop() {
    isStopped = true
    finishIfDone()
  }

  /// The number of answered commands, and of all commands, of the phase.
  var progress: (done: Int, of: Int) { (replied, phase.commands) }

  @discardableResult
  private func sendNext(_ connection: LoadConnection, since: NIODeadline?) -> Bool {
    guard !isStopped else { return false }
    if connection.stage + 1 < phase.stages.count, !connection.keys.isEmpty {
      connection.stage += 1
    } else {
      guard !untaken.isEmpty else {
        connection.keys = 0..<0
        return false
      }
      let end = min(untaken.lowerBound + phase.pipeline, untaken.upperBound)
      connection.keys = untaken.lowerBound..<end
      connection.stage = 0
      untaken = end..<untaken.upperBound
      touched = phase.keys.lowerBound..<max(touched.upperBound, end)
    }
    inFlight += connection.keys.count
    let now = NIODeadline.now()
    connection.send(phase.stages[connection.stage], since: since ?? now, now: now)
    return true
  }

  /// Sends the batches that are due, taking turns among the connections. A connection that still
  /// awaits replies sends its batch later; the latency counts from the due time nevertheless.
  private func sendDue() {
    guard let rate = phase.rate, finished != nil, !isStopped else { return }
    let interval = Double(phase.pipeline) * 1e9 / rate
    while true {
      let due = began + .nanoseconds(Int64(Double(slots) * interval))
      guard due <= .now() else {
        loop.scheduleTask(deadline: due) { self.sendDue() }
        return
      }
      guard Double(slots) * Double(phase.pipeline) < Double(phase.commands + slack) else {
        areSlotsOver = true
        for connection in connections where connection.missing == 0 {
          sendNext(connection, since: nil)
        }
        return
      }
      let connection = connections[slots % connections.count]
      slots += 1
      if connection.missing > 0 {
        connection.overdue.append(due)
      } else {
        sendNext(connection, since: due)
      }
    }
  }

  /// The number of commands by which the turns exceed the phase. The last keys may be on some
  /// connections only, which need turns for their remaining stages.
  private var slack: Int { connections.count * phase.pipeline * (phase.stages.count + 1) }

  private func finishIfDone() {
    guard let promise = finished, inFlight == 0 else { return }
    guard isStopped || replied >= phase.commands else { return }
    finished = nil
    result.nanoseconds = (NIODeadline.now() - began).nanoseconds
    for connection in connections {
      connection.keys = 0..<0
      connection.stage = 0
      connection.overdue.removeAll()
    }
    promise.succeed(result)
  }

  // MARK: Replies and failures

  func replied(_ connection: LoadConnection, count: Int, after: TimeAmount, now: NIODeadline) {
    guard !connection.keys.isEmpty else {
      answering += 1
      endWaveIfDone()
      return
    }
    inFlight -= count
    replied += count
    let microseconds = UInt64(max(0, after.nanoseconds + 500) / 1_000)
    result.stages[connection.stage].latencies.record(microseconds, count: UInt64(count))
    guard connection.missing == 0 else { return }
    if let due = connection.overdue.popFirst() {
      sendNext(connection, since: due)
    } else if areSlotsOver {
      sendNext(connection, since: nil)
    }
    finishIfDone()
  }

  /// The daemon answered with an error.
  func failed(with text: String?) {
    guard failure == nil, let text else { return }
    fail(CountdownClientError(reply: text))
  }

  func closed(_ connection: LoadConnection) {
    guard let index = connections.firstIndex(where: { $0 === connection }) else { return }
    connections.remove(at: index)
    if !connection.keys.isEmpty { inFlight -= connection.missing }
    if finished != nil || wave != nil { fail(.unsure(.connectionClosed)) }
  }

  private func fail(_ error: CountdownClientError) {
    if failure == nil { failure = error }
    isStopped = true
    endWaveIfDone()
    finishIfDone()
  }

  private func endWaveIfDone() {
    guard let (awaited, promise) = wave else { return }
    if let failure {
      wave = nil
      promise.fail(failure)
    } else if answering == awaited {
      wave = nil
      promise.succeed()
    }
  }
}
