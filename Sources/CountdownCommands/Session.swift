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
  var waitingTicks = WaitingTicks()

  package init(client: Client, pid: Int32, address: String, at now: Moment) {
    self.client = client
    self.pid = pid
    self.address = address
    connectedAt = now
    lastActive = now
  }

  /// What the client has not read, in bytes.
  package var pendingOutput: Int { unwrittenBytes + output.bytes.count + waitingTicks.bytes }

  /// Appends what waited, once the client has read on.
  package func releaseTicks() {
    for frame in waitingTicks.takeAll() { output.bytes.append(contentsOf: frame) }
  }
}
