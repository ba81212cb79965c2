import CountdownStore
import Countdowns
import Dispatch
import DispatchTimers
import Logging
import Runtime

/// Writes what this host knows of its fleet, on a thread of its own, as a disk may be slow. What
/// comes meanwhile is written once, afterwards.
package final class FleetMemoryFile {
  /// How long after a failure it is tried again.
  private static let pauseMilliseconds: UInt64 = 2_000

  private let directory: String
  private let loop: EventLoop
  private let logger: Logger
  private let queue = DispatchQueue(label: "countdownd.fleet")
  /// What may not be on the disk.
  private var newest: FleetMemory?
  private var isWriting = false
  private var hasFailed = false

  package init(_ directory: String, _ loop: EventLoop, _ logger: Logger) {
    (self.directory, self.loop, self.logger) = (directory, loop, logger)
  }

  /// Returns what was written before; nil if nothing was, or if it cannot be read.
  package func read() -> FleetMemory? {
    do throws(StoreError) {
      return try FleetMemory.read(in: directory)
    } catch {
      logger.error(
        "what this host knew of its fleet cannot be read, so it knows nothing at first: \(error)")
      return nil
    }
  }

  package func keep(_ memory: FleetMemory) {
    newest = memory
    if !hasFailed { write() }
  }

  private func write() {
    guard !isWriting, let memory = newest else { return }
    isWriting = true
    let (directory, loop) = (directory, loop)
    // It is used on the loop only.
    nonisolated(unsafe) let file = self
    queue.async {
      let result = Result { () throws(StoreError) in try memory.write(in: directory) }
      loop.execute { unsafe file.wrote(memory, result) }
    }
  }

  private func wrote(_ memory: FleetMemory, _ result: Result<Void, StoreError>) {
    isWriting = false
    switch result {
    case .success:
      hasFailed = false
      if newest == memory { newest = nil }
      write()
    case .failure(let error):
      if !hasFailed { report(error) }
      hasFailed = true
      loop.schedule(inMilliseconds: Self.pauseMilliseconds) { [self] in write() }
    }
  }

  private func report(_ error: StoreError) {
    logger.error(
      """
      what this host knows of its fleet cannot be stored; if servers lose records before it is, \
      the next daemon may not find that out: \(error)
      """)
  }

  /// Writes what is left, once the loop has ended.
  package func close() {
    queue.sync {}
    guard let newest else { return }
    do throws(StoreError) { try newest.write(in: directory) } catch { report(error) }
  }
}
