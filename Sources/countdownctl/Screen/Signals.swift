import Dispatch
import Glibc

/// Signals as a sequence, instead of what they would do by themselves.
///
/// Unchecked: the sources, whose type does not say that it is thread-safe, are only touched while
/// there is one reference, in `init` and `deinit`.
final class Signals: @unchecked Sendable {
  let received: AsyncStream<Int32>
  private let sources: [any DispatchSourceSignal]

  /// - Parameter leavingIgnored: what is ignored already, as nohup has it, stays so.
  init(_ numbers: [Int32], leavingIgnored: Bool = false) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Int32.self, bufferingPolicy: .bufferingNewest(16))
    received = stream
    sources = numbers.compactMap { number in
      // The source hears it nevertheless; without this the process would end first.
      let before = signal(number, SIG_IGN)
      if leavingIgnored,
        unsafe unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
      {
        return nil
      }
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler { continuation.yield(number) }
      source.resume()
      return source
    }
  }

  deinit {
    for source in sources { source.cancel() }
  }
}

extension Signals {
  /// Does work until a signal asks the process to end.
  ///
  /// - Returns: what `work` returned; nil if a signal came first.
  static func end<Result: Sendable>(
    _ work: @escaping @Sendable () async throws -> Result
  ) async throws -> Result? {
    let signals = Signals([SIGINT, SIGTERM, SIGHUP])
    return try await withThrowingTaskGroup(of: Result?.self) { group in
      group.addTask { try await work() }
      group.addTask {
        for await _ in signals.received { break }
        return nil
      }
      defer { group.cancelAll() }
      return try await group.next() ?? nil
    }
  }
}
