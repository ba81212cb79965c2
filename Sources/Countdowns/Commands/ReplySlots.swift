import DequeModule
import Wire

/// The place of one reply in the order of a session's commands, for a command that does not reply
/// at once. Others take none.
///
/// Whoever holds it fills it later. If its session has closed, that does nothing.
final class ReplySlot {
  /// Executes one part of a command. Returns whether it was the last.
  typealias Part = (_ now: Moment) throws(CommandError) -> Bool

  fileprivate enum State {
    /// The reply comes from elsewhere.
    case awaited
    /// The reply is complete, and waits for those before it.
    case filled
    /// The loop executes the rest of the command in parts, so that others are served in between.
    case unfinished(Part)
    /// The command begins after the replies before it.
    case deferred(KeptArguments)
  }

  /// The most elements that one part handles.
  static let elementsPerPart = 16

  fileprivate let session: Session
  fileprivate var state = State.awaited
  /// Whether later commands begin after its reply only.
  fileprivate let isBarrier: Bool
  /// Whether the client wants no reply.
  fileprivate let isDropped: Bool
  /// What is known of the reply.
  var reply: RESPEncoder

  init(for session: Session, isBarrier: Bool = true) {
    (self.session, self.isBarrier) = (session, isBarrier)
    isDropped = session.replies.areDropped
    reply = RESPEncoder(session.output.version)
  }

  /// Returns what calls `body` with each element, a few at a time.
  static func parts<S: Sequence>(
    _ elements: S, _ body: @escaping (S.Element, _ now: Moment) throws(CommandError) -> Void,
    finally: @escaping () -> Void = {}
  ) -> Part {
    var iterator = elements.makeIterator()
    return { now throws(CommandError) in
      for _ in 0..<elementsPerPart {
        guard let element = iterator.next() else {
          finally()
          return true
        }
        try body(element, now)
      }
      return false
    }
  }
}

extension Session {
  /// With as many replies that come later, no more commands are begun.
  private static let maximumSlots = 1_024

  package enum Step { case command, part }

  /// What its driver may do next: begin a command, or continue with one; nil before a reply.
  package var next: Step? {
    guard let last = slots.last else { return .command }
    if case .unfinished = last.state { return .part }
    return last.isBarrier || slots.count >= Self.maximumSlots ? nil : .command
  }

  /// Whether no reply is left that comes later.
  package var isAnswered: Bool { slots.isEmpty }

  /// Takes the next slot, for a reply that comes from elsewhere.
  func awaitReply(isBarrier: Bool = true) -> ReplySlot {
    slots.append(ReplySlot(for: self, isBarrier: isBarrier))
    return slots[slots.count - 1]
  }

  /// Executes a part of a command. Unless it was the last, the rest waits in the slot.
  func execute(
    _ part: @escaping ReplySlot.Part, in slot: ReplySlot? = nil, at now: Moment
  ) throws(CommandError) {
    guard try !part(now), !isGone else { return }
    let slot = slot ?? ReplySlot(for: self)
    slot.state = .unfinished(part)
    slots.append(slot)
    collectedBytes += slot.reply.bytes.count
  }

  /// Removes the first slot, once its turn has come.
  fileprivate func removeSlot() -> ReplySlot {
    collectedBytes -= slots[0].reply.bytes.count
    return slots.removeFirst()
  }
}

extension Dispatcher {
  /// Executes the next part of a session's command.
  ///
  /// - Returns: how many units of the session's share of a round it took.
  @discardableResult
  package func goOn(_ session: Session, at now: Moment) -> Int {
    guard case .unfinished(let part)? = session.slots.first?.state else { return 1 }
    let slot = session.removeSlot()
    let start = begin(session)
    let before = fairness.lapBegin
    do throws(CommandError) {
      try session.execute(part, in: slot, at: now)
    } catch {
      refuse(session, error, since: start)
    }
    let took = fairness.lap(since: before)
    finish(session, since: start)
    return spend(took, session, isCommand: false)
  }

  /// Defers a command that waits for the replies before it, as all do but those that the fleet
  /// decides. Returns whether it was deferred.
  func wasDeferred(_ arguments: Arguments, for session: Session) -> Bool {
    if let fleet, session.transaction == nil,
      case .found(let index) = table.find(arguments[0], arguments.count > 1 ? arguments[1] : nil),
      fleet.shares(table.rows[index]) || table.rows[index].flags.contains(.decidedByFleet)
    {
      return false
    }
    session.awaitReply().state = .deferred(KeptArguments(arguments))
    return true
  }

  /// Continues in parts with the command that a slot belongs to.
  func goOn(_ slot: ReplySlot, _ part: @escaping ReplySlot.Part) {
    guard !slot.session.isClosing else { return }
    slot.state = .unfinished(part)
    goOn(slot.session, at: host.now)
  }

  /// Fills a slot, and writes the replies that are next in order. After the last, executes the
  /// deferred command.
  func fill(_ slot: ReplySlot, _ write: (inout RESPEncoder) -> Void) {
    let session = slot.session
    guard !session.isClosing else { return }
    write(&slot.reply)
    session.collectedBytes += slot.reply.bytes.count
    slot.state = .filled
    while case .filled? = session.slots.first?.state {
      let next = session.removeSlot()
      if !next.isDropped { session.output.bytes += next.reply.bytes }
      touch(session)
    }
    account(session)
    guard case .deferred(let arguments)? = session.slots.first?.state else { return }
    _ = session.removeSlot()
    arguments.withArguments { _ = execute($0, for: session, at: host.now) }
  }

  /// Executes no more commands. Returns whether replies are left that come from a fleet's servers.
  package func holdCommandsForFleet() -> Bool {
    guard fleet != nil else { return false }
    for session in sessions.values where session.next == .command { _ = session.awaitReply() }
    return sessions.values.contains { $0.slots.count > 1 }
  }
}
