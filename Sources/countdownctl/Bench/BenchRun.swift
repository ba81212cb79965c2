import CountdownClient
import Glibc
import NIOCore
import NIOPosix

/// One load test, from the first connection to the cleanup of the last key.
actor BenchRun {
  private let options: BenchOptions
  private let path: String
  private let client: Client
  /// The prefix of all keys, which no other client uses.
  let prefix: String
  private let group: MultiThreadedEventLoopGroup
  private var workers: [LoadWorker] = []
  /// Cancels the keys at the end, on its own connection: those of the load may still await replies.
  private var cleaner: LoadWorker?
  private var listener: EventListener?
  private var probe: PingProbe?
  private var step = "connect"
  private(set) var isInterrupted = false

  /// How long to wait for events after the last one is due.
  private static let patience = TimeAmount.seconds(30)

  init(_ options: BenchOptions, path: String, client: Client) {
    self.options = options
    self.path = path
    self.client = client
    prefix = "bench:" + String(UInt32.random(in: .min ... .max) | 1 << 31, radix: 16) + ":"
    // The listener and the probe measure time, so each has its own thread.
    group = MultiThreadedEventLoopGroup(numberOfThreads: options.threads + 2)
  }

  /// - Throws: `CountdownClientError`, after cleaning up the keys as far as the daemon still
  ///   answers.
  func run() async throws -> BenchReport {
    do {
      let report = try await measure()
      try await close()
      return report
    } catch {
      try? await close()
      throw error
    }
  }

  /// Stops sending; `run` then returns the measurements up to now.
  func interrupt() async {
    isInterrupted = true
    listener?.stop()
    for worker in workers { try? await worker.inLoop { $0.stop() } }
  }

  /// The current step and its progress.
  func progress() async -> (step: String, done: Int, of: Int) {
    var done = 0
    var total = 0
    for worker in workers {
      guard let progress = try? await worker.inLoop({ $0.progress }) else { continue }
      done += progress.done
      total += progress.of
    }
    if step == "events", let ready = try? await listener?.read({ $0.ready }) { done = ready }
    return (step, done, total)
  }

  // MARK: Steps

  private func measure() async throws -> BenchReport {
    _ = try await ServerFacts.ask(client)
    try await connect()
    if options.mix == .get {
      step = "fill"
      _ = try await load([.start(prefix: prefix, options.dueOfKeys)], at: nil)
    }
    let before = try await ServerFacts.ask(client)
    let due = options.dueOfKeys
    probe?.start(firstDue: options.firstDue(due))
    step = options.mix.rawValue
    let result = try await load(stages(due), at: options.effectiveRate)
    let loaded = try await ServerFacts.ask(client)
    let started = options.mix == .get ? 0 : try await touched().reduce(0) { $0 + $1.count }
    if let listener, !isInterrupted {
      step = "events"
      try await listener.wait(
        forReady: started, patience: .milliseconds(Int64(options.longestMS)) + Self.patience)
    }
    let pings = try await probe?.stop()
    let after = try await ServerFacts.ask(client)
    return BenchReport(
      options: options, prefix: prefix, load: result, started: started,
      events: try await listener?.read { $0 }, pings: pings, before: before, loaded: loaded,
      after: after, isInterrupted: isInterrupted)
  }

  private func stages(_ due: KeyCommand.Due) -> [KeyCommand] {
    switch options.mix {
    case .start, .watched, .burst, .spread: [.start(prefix: prefix, due)]
    case .startCancel: [.start(prefix: prefix, due), .cancel(prefix: prefix)]
    case .get: [.get(prefix: prefix)]
    }
  }

  private func connect() async throws {
    Self.raiseDescriptorLimit()
    let loops = Array(group.makeIterator())
    if options.mix.isWatched {
      listener = try await EventListener.open(path: path, prefix: prefix, loop: loops[0])
      probe = try await PingProbe.open(path: path, loop: loops[1])
    }
    let cleaner = LoadWorker(loop: loops[1])
    try await cleaner.connect(path: path, count: 1)
    self.cleaner = cleaner
    for index in 0..<options.threads {
      let worker = LoadWorker(loop: loops[2 + index])
      workers.append(worker)
      try await worker.connect(path: path, count: share(options.connections, index).count)
    }
  }

  /// Runs all stages for all keys.
  private func load(_ stages: [KeyCommand], at rate: Double?) async throws -> LoadResult {
    let phases = workers.indices.map { index in
      let keys = share(options.countdowns, index)
      return LoadPhase(
        keys: keys, stages: stages, pipeline: options.pipeline,
        rate: rate.map { $0 * Double(keys.count) / Double(options.countdowns) })
    }
    return try await run(phases)
  }

  private func run(_ phases: [LoadPhase]) async throws -> LoadResult {
    var running: [EventLoopFuture<LoadResult>] = []
    for (worker, phase) in zip(workers, phases) {
      running.append(try await worker.inLoop { $0.run(phase) })
    }
    if isInterrupted { await interrupt() }
    var results: [LoadResult] = []
    for future in running { results.append(try await future.get()) }
    for worker in workers {
      if let failure = try await worker.inLoop({ $0.failure }) { throw failure }
    }
    var all = results.removeFirst()
    for result in results { all.add(result) }
    return all
  }

  /// Returns a worker's share of `count` items.
  private func share(_ count: Int, _ index: Int) -> Range<Int> {
    count * index / options.threads..<count * (index + 1) / options.threads
  }

  // MARK: Afterwards

  private func close() async throws {
    step = "clean up"
    for worker in workers { try? await worker.inLoop { $0.close() } }
    if !options.keep { try? await cleanUp() }
    await client.close()
    try await group.shutdownGracefully()
  }

  /// Cancels all keys for which commands were sent, however the test has ended.
  private func cleanUp() async throws {
    guard let cleaner else { return }
    let ranges = try await touched()
    workers = [cleaner]
    for keys in ranges {
      let phase = LoadPhase(
        keys: keys, stages: [.cancel(prefix: prefix)], pipeline: 256, rate: nil)
      _ = try await cleaner.inLoop { $0.run(phase) }.get()
    }
  }

  private func touched() async throws -> [Range<Int>] {
    var ranges: [Range<Int>] = []
    for worker in workers { ranges.append(try await worker.inLoop { $0.touched }) }
    return ranges
  }

  /// Raises the limit of open descriptors to its maximum; a connection takes one.
  private static func raiseDescriptorLimit() {
    var limit = rlimit()
    guard unsafe getrlimit(resourceKind, &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    _ = unsafe setrlimit(resourceKind, &limit)
  }
}

#if canImport(Glibc)
  private let resourceKind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
#else
  private let resourceKind = RLIMIT_NOFILE
#endif
