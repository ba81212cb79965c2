import CountdownStore
import Countdowns
import Dispatch
import DispatchTimers
import Logging

/// Writes what this host knows of its fleet, on a thread of its own, as a disk may be slow. What
/// comes meanwhile is written once, afterwards.
final class FleetMemoryFile {
  private let directory: String
  private let loop: EventLoop
  private let logger: Logger
  private let queue = DispatchQueue(label: "countdownd.fleet")
  private var next: FleetMemory?
  private var isWriting = false
  private var hasFailed = false

  init(_ directory: String, _ loop: EventLoop, _ logger: Logger) {
    (self.directory, self.loop, self.logger) = (directory, loop, logger)
  }

  /// Returns what was written before; nil if nothing was, or if it cannot be read.
  func read() -> FleetMemory? {
    do throws(StoreError) {
      return try FleetMemory.read(in: directory)
    } catch {
      logger.error(
        "what this host knew of its fleet cannot be read, so it knows nothing at first: \(error)")
      return nil
    }
  }

  func keep(_ memory: FleetMemory) {
    next = memory
    if !isWriting { write() }
  }

  private func write() {
    guard let memory = next else { return }
    (next, isWriting) = (nil, true)
    let (directory, loop) = (directory, loop)
    // It is used on the loop only.
    nonisolated(unsafe) let file = self
    queue.async {
      let result = Result { () throws(StoreError) in try memory.write(in: directory) }
      loop.execute {
        unsafe file.isWriting = false
        unsafe file.report(result)
        unsafe file.write()
      }
    }
  }

  private func report(_ result: Result<Void, StoreError>) {
    guard case .failure(let error) = result else {
      hasFailed = false
      return
    }
    if !hasFailed {
      logger.error(
        """
        what this host knows of its fleet cannot be stored; if servers lose records before it is, \
        the next daemon may not find that out: \(error)
        """)
    }
    hasFailed = true
  }

  /// Writes what is left, once the loop has ended.
  func close() {
    queue.sync {}
    guard let next else { return }
    report(Result { () throws(StoreError) in try next.write(in: directory) })
  }
}
