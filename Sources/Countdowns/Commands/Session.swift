import DequeModule
import Wire

/// What the protocol knows of one connection: who it is, what it speaks, what it has been sent.
///
/// Replies and events are appended to `output`; the driver of the connection takes them from there.
/// Confined to the one event loop.
package final class Session {
  package let client: Client
  package let peer: Peer
  package var pid: Int32 { peer.pid }
  /// Of its socket; -1 where there is none.
  package let descriptor: Int32
  package let connectedAt: Moment
  /// As `CLIENT LIST` shows it.
  package let address: String

  /// Replies and events of this batch: not written before the batch is as safe as is promised.
  package var output = RESPEncoder()
  /// What may be written.
  package var outbound = OutputQueue()
  /// Of batches before, on its way to `outbound`: how many, and their bytes.
  package var heldBatches = 0
  package var heldBytes = 0
  package var name: [UInt8] = []
  package var libraryName: [UInt8] = []
  package var libraryVersion: [UInt8] = []
  /// As a row of the command table; nil before the first.
  package var lastCommand: Int?
  package var lastActive: Moment
  /// As set by `CLIENT REPLY`.
  var replies = Replies.all

  package var isMonitor = false
  /// No more commands are taken; it is closed once its output is written.
  package var isClosing = false

  /// Set by the writer: the socket takes nothing more before the client reads.
  package var isBackedUp = false
  /// The last batch in which it received something: `Dispatcher.batch`.
  var touchedInBatch = -2
  var waitingTicks = WaitingTicks()
  /// A command is under way whose reply comes later; what follows it waits.
  package internal(set) var isWaiting = false
  /// Replies to commands that the fleet decides, in their order; the oldest comes next.
  var pending: Deque<PendingReply> = []
  package var pendingCount: Int { pending.count }
  /// More are not begun before some of them have come.
  package static let mostPending = 1_024
  /// A command that waits for them.
  var deferred: KeptArguments?
  /// What is left of a command that is done part by part; what follows it waits.
  var unfinished: Unfinished?
  package var isUnfinished: Bool { unfinished != nil }
  /// What an unfinished command has put together of its reply.
  var collected = RESPEncoder()
  /// The connection is closed: nothing of its output is left but what is being stored.
  package internal(set) var isGone = false

  /// Whose it is; from `Dispatcher.open` on.
  var user: User?
  /// The output of a slice of a mass expiry.
  private static let mostRoom = 512 << 10
  /// Bytes of output in the batch before.
  private var lastOutput = 0
  /// As much of `pendingOutput` as its user's sum knows of.
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

  /// What the client has not read, in bytes.
  package var pendingOutput: Int {
    outbound.count + heldBytes + output.bytes.count + waitingTicks.bytes
      + collected.bytes.count
  }

  /// Frees what nobody will read: all but what is being written and stored.
  func discardOutput() {
    output.bytes = []
    outbound.removeAll()
    waitingTicks = WaitingTicks()
    collected.bytes = []
    unfinished = nil
    pending = []
    deferred = nil
  }

  /// Appends what waited, once the client has read on.
  package func releaseTicks() {
    for frame in waitingTicks.takeAll() { outbound.append(frame) }
  }

  /// Reserves as much room as the batch before took.
  func makeRoom() { output.bytes.reserveCapacity(lastOutput) }

  /// Takes the replies and events of this batch.
  package func takeOutput() -> [UInt8] {
    var bytes: [UInt8] = []
    swap(&bytes, &output.bytes)
    lastOutput = min(bytes.count, Self.mostRoom)
    return bytes
  }

  /// Forgets them, as they have been written. The memory of a few short replies is kept.
  package func dropOutput() {
    guard output.bytes.capacity <= Self.mostKept else {
      _ = takeOutput()
      return
    }
    output.bytes.removeAll(keepingCapacity: true)
  }

  /// In bytes, as there may be tens of thousands of connections.
  private static let mostKept = 512
}

/// Which replies a connection wants. Events come in any case.
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

/// The rest of a command that is done part by part, so that other clients come in between.
struct Unfinished {
  /// Does one part; returns whether it was the last.
  typealias Part = (_ now: Moment) throws(CommandError) -> Bool

  /// The most elements that one part deals with.
  static let elementsPerPart = 16

  let part: Part
}
