import DequeModule
import Wire

/// The protocol's view of one connection: its client, protocol version and output.
///
/// Replies and events are appended to `output`; the driver of the connection takes them from there.
/// Confined to the one event loop.
package final class Session {
  package let client: Client
  package let peer: Peer
  package var pid: Int32 { peer.pid }
  /// The file descriptor of the socket; -1 if there is none.
  package let descriptor: Int32
  package let connectedAt: Moment
  /// The client's address, as `CLIENT LIST` shows it.
  package let address: String

  /// Replies and events of this batch, not written before the batch is as durable as promised.
  package var output = RESPEncoder()
  /// The bytes that may be written.
  package var outbound = OutputQueue()
  /// The number of earlier batches whose output is not in `outbound` yet, and the bytes of it.
  package var heldBatches = 0
  package var heldBytes = 0
  package var name: [UInt8] = []
  package var libraryName: [UInt8] = []
  package var libraryVersion: [UInt8] = []
  /// The last command, as a row of the command table; nil before the first.
  package var lastCommand: Int?
  package var lastActive: Moment
  /// The replies that the client wants, as set by `CLIENT REPLY`.
  var replies = Replies.all

  package var isMonitor = false
  /// Whether no more commands are taken, and the session is closed once its output is written.
  package var isClosing = false

  /// Whether the socket takes nothing more before the client reads. Set by the writer.
  package var isBackedUp = false
  /// The last batch that touched this session, as counted by `Dispatcher.batch`.
  var touchedInBatch = -2
  var waitingTicks = WaitingTicks()
  /// The places of replies that come later, and how many bytes of them are known.
  var slots: Deque<ReplySlot> = []
  var collectedBytes = 0
  /// The commands since MULTI; nil if there was none.
  var transaction: Transaction?
  /// Whether the connection is closed; all that is left of its output is being stored.
  package internal(set) var isGone = false

  /// The user of the connection, set by `Dispatcher.open`.
  var user: User?
  /// What it may do with keys; nil without rules.
  var rights: Rights?
  /// The most bytes to reserve: the output of one slice of a mass expiry.
  private static let maximumRoom = 512 << 10
  /// Bytes of output in the batch before, at most `maximumRoom`.
  private var lastOutput = 0
  /// The part of `pendingOutput` that is counted in its user's sum.
  var accountedOutput = 0

  package init(
    connection: UInt64, peer: Peer, descriptor: Int32 = -1, address: String, at now: Moment
  ) {
    client = Client(connection: connection, uid: peer.uid)
    self.peer = peer
    self.descriptor = descriptor
    self.address = address
    connectedAt = now
    lastActive = now
  }

  /// The bytes that the client has not read.
  package var pendingOutput: Int {
    outbound.count + heldBytes + output.bytes.count + waitingTicks.bytes + collectedBytes
  }

  /// Frees the output that nobody will read: all but what is being stored.
  func discardOutput() {
    output.bytes = []
    outbound.removeAll()
    waitingTicks = WaitingTicks()
    slots = []
    collectedBytes = 0
    transaction = nil
  }

  /// Moves the waiting ticks to `outbound`, once the client has read.
  package func releaseTicks() {
    for frame in waitingTicks.takeAll() { outbound.append(frame) }
  }

  /// Reserves as much room as the batch before took.
  func makeRoom() { output.bytes.reserveCapacity(lastOutput) }

  /// Takes the replies and events of this batch.
  package func takeOutput() -> [UInt8] {
    var bytes: [UInt8] = []
    swap(&bytes, &output.bytes)
    lastOutput = min(bytes.count, Self.maximumRoom)
    return bytes
  }

  /// Removes the output of this batch, which has been written. Keeps the memory of a few replies.
  package func dropOutput() {
    guard output.bytes.capacity <= Self.maximumKept else {
      _ = takeOutput()
      return
    }
    output.bytes.removeAll(keepingCapacity: true)
  }

  /// The most memory that is kept, in bytes: there may be tens of thousands of connections.
  private static let maximumKept = 512
}

/// Which replies a connection wants. Events are sent in any case.
enum Replies {
  case all, none, allButNext, allButThis

  var areDropped: Bool { self == .none || self == .allButThis }

  mutating func nextCommand() {
    switch self {
    case .all, .none: break
    case .allButNext: self = .allButThis
    case .allButThis: self = .all
    }
  }
}
