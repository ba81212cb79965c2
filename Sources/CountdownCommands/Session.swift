import CountdownEngine
import RESP

/// What the protocol knows of one connection: who it is, what it speaks, what it has been sent.
///
/// Replies and events are appended to `output`; whoever drives the connection takes them from
/// there. Confined to the one event loop.
package final class Session {
  package let client: Client
  package let pid: Int32
  package let connectedAt: Moment
  /// As `CLIENT LIST` shows it.
  package let address: String

  package var output = RESPEncoder()
  package var name: [UInt8] = []
  package var libraryName: [UInt8] = []
  package var libraryVersion: [UInt8] = []
  package var lastCommand: String = ""
  package var lastActive: Moment
  package var commands: Int64 = 0

  package var isMonitor = false
  /// No more commands are taken; it is closed once its output is written.
  package var isClosing = false

  /// Set by whoever writes: the client does not read as fast as it is sent to.
  package var isBackedUp = false
  /// Bytes handed on for writing that have not been written yet.
  package var unwrittenBytes = 0
  /// The newest tick of each channel that waits for the client to read on.
  private var waitingTicks: [[UInt8]: (sequence: Int64, frame: [UInt8])] = [:]
  private var waitingTickBytes = 0

  package init(client: Client, pid: Int32, address: String, at now: Moment) {
    self.client = client
    self.pid = pid
    self.address = address
    connectedAt = now
    lastActive = now
  }

  package var pendingOutput: Int { unwrittenBytes + output.bytes.count + waitingTickBytes }

  // MARK: Ticks that wait

  var hasWaitingTicks: Bool { !waitingTicks.isEmpty }

  /// True if an older one made way for it.
  func wait(_ frame: [UInt8], of channel: [UInt8], sequence: Int64) -> Bool {
    let old = waitingTicks.updateValue((sequence, frame), forKey: channel)
    waitingTickBytes += frame.count - (old?.frame.count ?? 0)
    return old != nil
  }

  /// True if there was one.
  func dropTick(of channel: [UInt8]) -> Bool {
    guard let old = waitingTicks.removeValue(forKey: channel) else { return false }
    waitingTickBytes -= old.frame.count
    return true
  }

  func dropTicks() {
    waitingTicks = [:]
    waitingTickBytes = 0
  }

  /// Appends what waited, in the order it happened, once the client has read on.
  package func releaseTicks() {
    for tick in waitingTicks.values.sorted(by: { $0.sequence < $1.sequence }) {
      output.bytes.append(contentsOf: tick.frame)
    }
    dropTicks()
  }
}
