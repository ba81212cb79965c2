import Wire

/// What the protocol knows of one connection: who it is, what it speaks, what it has been sent.
///
/// Replies and events are appended to `output`; whoever drives the connection takes them from
/// there. Confined to the one event loop.
package final class Session {
  package let client: Client
  package let peer: Peer
  package var pid: Int32 { peer.pid }
  package let connectedAt: Moment
  /// As `CLIENT LIST` shows it.
  package let address: String

  /// What it is told in this turn: not to be written before what it says is as safe as is promised.
  package var output = RESPEncoder()
  /// Parts of `output` that tell of changes which may turn out not to be possible.
  package var provisional: [Provisional] = []
  /// Which snapshots are among these: they are told anew if what they tell of was not possible.
  package var provisionalSnapshots: [SnapshotOrigin] = []
  /// What may be written.
  package var outbound = OutputQueue()
  /// Of turns before, on its way to `outbound`: how many, and their bytes.
  package var heldTurns = 0
  package var heldBytes = 0
  package var name: [UInt8] = []
  package var libraryName: [UInt8] = []
  package var libraryVersion: [UInt8] = []
  /// As a row of the command table; nil before the first.
  package var lastCommand: Int?
  package var lastActive: Moment
  /// What `CLIENT REPLY` has said.
  var replies = Replies.all

  package var isMonitor = false
  /// No more commands are taken; it is closed once its output is written.
  package var isClosing = false

  /// Set by whoever writes: the client does not read as fast as it is sent to.
  package var isBackedUp = false
  /// Bytes handed on for writing that have not been written yet.
  package var unwrittenBytes = 0
  /// It is among those who were said something in this turn.
  var isTouched = false
  var waitingTicks = WaitingTicks()
  /// A command is under way whose reply comes later; what follows it waits.
  package internal(set) var isWaiting = false
  /// What is left of a command that is done part by part; what follows it waits.
  var unfinished: Unfinished?
  package var isUnfinished: Bool { unfinished != nil }
  /// What an unfinished command has put together of its reply.
  var collected = RESPEncoder()
  /// The connection is closed: nothing of its output is left but what is being stored.
  package internal(set) var isGone = false

  /// Whose it is; from `Dispatcher.open` on.
  var user: User?
  /// What is said in a slice of a mass expiry.
  private static let mostRoom = 512 << 10
  /// Bytes it was told in the turn before.
  private var lastSaid = 0
  /// As much of `pendingOutput` as its user's sum knows of.
  var accountedOutput = 0

  package init(connection: UInt64, peer: Peer, address: String, at now: Moment) {
    client = Client(connection: connection, uid: peer.uid)
    self.peer = peer
    self.address = address
    connectedAt = now
    lastActive = now
  }

  /// What the client has not read, in bytes.
  package var pendingOutput: Int {
    unwrittenBytes + outbound.count + heldBytes + output.bytes.count + waitingTicks.bytes
      + collected.bytes.count
  }

  /// Frees what nobody will read: all but what is being written and stored.
  func discardOutput() {
    output.bytes = []
    provisional = []
    provisionalSnapshots = []
    outbound.removeAll()
    waitingTicks = WaitingTicks()
    collected.bytes = []
    unfinished = nil
  }

  /// Appends what waited, once the client has read on.
  package func releaseTicks() {
    for frame in waitingTicks.takeAll() { outbound.append(frame) }
  }

  /// As much as it was told last time is made room for at once.
  func makeRoom() { output.bytes.reserveCapacity(lastSaid) }

  /// What was appended from there on is an event that may have to be taken back.
  func noteProvisionalEvent(from start: Int, _ batch: UInt64) {
    let end = output.bytes.count
    if let last = provisional.indices.last, provisional[last].kind == .event,
      provisional[last].batch == batch, provisional[last].range.upperBound == start
    {
      provisional[last].range = provisional[last].range.lowerBound..<end
    } else {
      provisional.append(Provisional(range: start..<end, kind: .event, batch: batch))
    }
  }

  /// Takes what it was told in this turn.
  package func takeSaid() -> Said {
    var said = Said(bytes: [], provisional: [])
    swap(&said.bytes, &output.bytes)
    lastSaid = min(said.bytes.count, Self.mostRoom)
    swap(&said.provisional, &provisional)
    if !provisionalSnapshots.isEmpty { swap(&said.snapshots, &provisionalSnapshots) }
    return said
  }
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

/// A part of what was said that tells of a change.
package struct Provisional {
  package enum Kind: Sendable {
    /// The reply to the command that made it.
    case reply
    /// The reply to a command that read of it.
    case reading
    case event
  }

  package var range: Range<Int>
  package var kind: Kind
  /// Only if that batch is stored is it so.
  package var batch: UInt64
}

/// Which subscription a snapshot was for.
package enum SnapshotOrigin: Hashable, Sendable {
  case channel([UInt8])
  case pattern([UInt8])
}

/// What a connection was told in one turn.
package struct Said {
  package var bytes: [UInt8]
  package var provisional: [Provisional]
  package var snapshots: [SnapshotOrigin] = []

  /// Whether a command of the connection has changed something.
  package var hasChangedAnything: Bool { provisional.contains { $0.kind == .reply } }

  /// Whether it says how something is that may turn out to be otherwise.
  package var tellsOfState: Bool {
    !snapshots.isEmpty || provisional.contains { $0.kind == .reading }
  }

  /// The same, had the changes not been possible: commands are refused, events did not happen.
  ///
  /// - Parameter batch: it was not stored, nor were those after it; those before it were.
  package func withdrawn(_ error: String, since batch: UInt64) -> [UInt8] {
    var result: [UInt8] = []
    var position = 0
    for part in provisional where part.batch >= batch {
      result += bytes[position..<part.range.lowerBound]
      if part.kind != .event {
        var refusal = RESPEncoder()
        refusal.error(error)
        result += refusal.bytes
      }
      position = part.range.upperBound
    }
    return result + bytes[position...]
  }
}
