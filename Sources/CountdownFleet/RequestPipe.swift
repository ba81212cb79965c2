import Countdowns
import DequeModule
import Wire

/// The requests to a server: gathered for the next batch, under way in the order of their replies,
/// and changes that replicas have not confirmed.
struct RequestPipe {
  /// A request that has no answer yet.
  struct Pending {
    var id: UInt64
    var request: FleetRequest
    var partition: Int
    var sent: Int64 = 0
    /// Whether the request is repeated because the server did not know its script.
    var isRepeated = false
  }

  enum Expected {
    case memory
    case persistence
    case script(FleetScript)
    case answer(Pending)
    case replicas
    case confirmation(Confirmation.Question)
    case nothing
  }

  /// A change that the server has made, but its replicas have not confirmed.
  struct Unconfirmed {
    var pending: Pending
    var number: Int64
    var engine: Int64?
  }

  /// The most requests that are under way at once; the others wait in `gathered`.
  private static let maximumUnderWay = 4_096

  private var output: [UInt8] = []
  private var replies = 0
  private var expected: Deque<Expected> = []
  private var gathered: Deque<Pending> = []
  /// Requests to repeat, as the server did not know their script: before the gathered ones.
  private var repeated: Deque<Pending> = []
  private var underWay = 0
  private var scriptsToLoad: Set<FleetScript> = []
  private var shas = [[UInt8]](repeating: [], count: FleetScript.allCases.count)
  private(set) var unconfirmed: [Unconfirmed] = []
  /// Whether replicas are asked, so that the next batch gathers.
  private(set) var isWaiting = false

  // MARK: Sending

  mutating func gather(_ pending: Pending) { gathered.append(pending) }

  mutating func ask(_ words: [String], _ answer: Expected) {
    RESPRequest.append(words.map(\.utf8Array), to: &output)
    expect(answer)
  }

  private mutating func expect(_ answer: Expected) {
    expected.append(answer)
    replies += 1
  }

  mutating func load(_ script: FleetScript) {
    ask(["SCRIPT", "LOAD", script.source], .script(script))
  }

  /// Whether gathered requests can be sent. Requests of a partition stay in order: if a script has
  /// to be loaded, the others under way may have to be repeated, too.
  var canFlush: Bool {
    !isWaiting && !(gathered.isEmpty && repeated.isEmpty)
      && (scriptsToLoad.isEmpty || underWay == 0)
  }

  /// Asks what was gathered. Returns whether any of it is a change, and whether any opens a
  /// partition.
  mutating func askGathered(
    _ names: [FleetNames], at now: Int64
  ) -> (hasChanges: Bool, opens: Bool) {
    var (hasChanges, opens) = (false, false)
    for script in scriptsToLoad { load(script) }
    scriptsToLoad = []
    while underWay < Self.maximumUnderWay, var pending = repeated.popFirst() ?? gathered.popFirst()
    {
      pending.sent = now
      let sha = shas[pending.request.script.rawValue]
      pending.request.append(names[pending.partition], sha: sha, to: &output)
      expect(.answer(pending))
      underWay += 1
      if pending.request.isChange { hasChanges = true }
      if case .open = pending.request { opens = true }
    }
    return (hasChanges, opens)
  }

  mutating func awaitReplicas() { isWaiting = true }

  /// Takes what is to be written, and how many replies it will have.
  mutating func takeOutput() -> (bytes: [UInt8], replies: Int) {
    defer { (output, replies) = ([], 0) }
    return (output, replies)
  }

  // MARK: Answers

  /// Returns what the next reply answers.
  mutating func next() -> Expected? {
    let next = expected.popFirst()
    if case .answer? = next { underWay -= 1 }
    return next
  }

  mutating func note(_ sha: [UInt8], of script: FleetScript) { shas[script.rawValue] = sha }

  /// Loads the script of a request again, before the request is repeated: somebody has removed it.
  mutating func `repeat`(_ pending: Pending) {
    scriptsToLoad.insert(pending.request.script)
    var again = pending
    again.isRepeated = true
    repeated.append(again)
  }

  mutating func awaitConfirmation(_ one: Unconfirmed) { unconfirmed.append(one) }

  /// Takes the changes that the replicas were asked about.
  mutating func takeUnconfirmed() -> [Unconfirmed] {
    defer { (unconfirmed, isWaiting) = ([], false) }
    return unconfirmed
  }

  /// Takes all requests without an answer: those sent, and those that were not.
  mutating func takeAll() -> (unconfirmed: [Unconfirmed], sent: [Pending], unsent: [Pending]) {
    let sent = expected.compactMap { if case .answer(let pending) = $0 { pending } else { nil } }
    let all = (unconfirmed, sent, Array(repeated + gathered))
    let shas = shas
    self = RequestPipe()
    self.shas = shas
    return all
  }
}
