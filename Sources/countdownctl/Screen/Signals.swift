import Dispatch
import Glibc

/// Signals as a sequence, in place of their default actions.
///
/// Unchecked: the sources, which are not `Sendable`, are used only in `init` and `deinit`, while
/// there is one reference.
final class Signals: @unchecked Sendable {
  let received: AsyncStream<Int32>
  private let sources: [any DispatchSourceSignal]

  /// Waits until each of them is watched: a signal that came between would be lost.
  ///
  /// - Parameter leavingIgnored: whether signals already ignored, as under nohup, stay so.
  init(_ numbers: [Int32], leavingIgnored: Bool = false) {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Int32.self, bufferingPolicy: .bufferingNewest(16))
    received = stream
    let registrations = DispatchGroup()
    sources = numbers.compactMap { number in
      // The source receives ignored signals, too; the default action would end the process.
      let before = signal(number, SIG_IGN)
      if leavingIgnored,
        unsafe unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
      {
        return nil
      }
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler { continuation.yield(number) }
      registrations.enter()
      source.setRegistrationHandler { registrations.leave() }
      source.activate()
      return source
    }
    registrations.wait()
  }

  deinit {
    for source in sources { source.cancel() }
  }
}

extension Signals {
  /// Runs `work` until a signal asks the process to end.
  ///
  /// - Returns: the result of `work`; nil if a signal came first.
  static func end<Value: Sendable>(
    _ work: @escaping @Sendable () async throws -> Value
  ) async throws -> Value? {
    let signals = Signals([SIGINT, SIGTERM, SIGHUP])
    return try await firstOutcome(
      of: work,
      orEndOf: [
        {
          for await _ in signals.received { break }
          return true
        }
      ])
  }
}

/// Runs `work` until it returns, or until one of `others` returns true, which makes the result nil.
///
/// Cancels the rest without waiting for it: a daemon that does not answer would block it.
func firstOutcome<Value: Sendable>(
  of work: @escaping @Sendable () async throws -> Value,
  orEndOf others: [@Sendable () async -> Bool]
) async throws -> Value? {
  let (outcomes, outcome) = AsyncStream.makeStream(of: Result<Value?, any Error>.self)
  let working = Task {
    do {
      outcome.yield(.success(try await work()))
    } catch {
      outcome.yield(.failure(error))
    }
  }
  let tasks = others.map { other in Task { if await other() { outcome.yield(.success(nil)) } } }
  defer { for task in [working] + tasks { task.cancel() } }
  for await first in outcomes { return try first.get() }
  throw CancellationError()
}
