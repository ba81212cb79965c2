import Testing

@testable import Countdowns

/// The rule of what outlives the daemon, kind by kind.
@Suite struct DurabilityTests {
  private let owners: [Owner] = [
    .none, .connection(1),
    .scope(OwnerName(key: [1], index: 0, generation: Generation(1))),
  ]

  @Test func timersAndGuardsAreStoredWithoutAnOwner() {
    for owner in owners {
      var timer = TimerEntity.blank("t".utf8.span)
      timer.owner = owner
      #expect((TimerKind.stored(timer) != nil) == (owner == .none))
      #expect((ThrottleKind.stored(guarded(.blank, owner)) != nil) == (owner == .none))
      #expect((OnceKind.stored(guarded(.blank, owner)) != nil) == (owner == .none))
      #expect((DebounceKind.stored(guarded(.blank, owner)) != nil) == (owner == .none))
      #expect((GateKind.stored(guarded(.blank, owner)) != nil) == (owner == .none))
    }
  }

  @Test func aStoredKeyIsNoLongerThanThatOfACommand() throws {
    for length in [1, 512, 513] {
      let key = [UInt8](repeating: 107, count: length)
      var timer = TimerEntity.blank(key.span)
      var writer = StateWriter(offset: 0)
      TimerKind.write(key.span, &timer, to: &writer)
      #expect((EntityRecord.key(of: writer.bytes.span) != nil) == (length <= 512))
      let reply = try DispatcherHarness().say("TIMER GET \(String(repeating: "k", count: length))")
      #expect("\(reply)".contains("1 to 512 bytes") == (length > 512))
    }
  }

  private func guarded<Machine: Guard>(
    _ machine: Machine, _ owner: Owner
  ) -> GuardEntity<Machine> {
    GuardEntity(key: [1], machine: machine, generation: Generation(1), owner: owner, uid: 0)
  }

  @Test func noConnectionRunsTheActionOfAStoredGate() throws {
    var gate = Gate(waitingFor: Gate.Action(name: [1]), for: .seconds(9), at: .zero)
    _ = gate.open(for: nil, at: .zero)
    _ = gate.take(by: 5)
    #expect(gate.run?.taker == 5)
    let stored = try #require(GateKind.stored(guarded(gate, .none)))
    #expect(stored.machine.run != nil && stored.machine.run?.taker == nil)
  }

  @Test func anOwnedCountdownIsStoredForItsSendsAsIfCancelled() throws {
    var state = CountdownEntity.blank("a".utf8.span)
    #expect(CountdownKind.stored(state)?.machine == state.machine)
    state.owner = .connection(1)
    #expect(CountdownKind.stored(state) == nil)
    let policy = try SendPolicy(name: "p", SendPolicy.Rules())
    state.sending = Sending(policy)
    #expect(CountdownKind.stored(state) == nil)
    let sent = Instant(microseconds: 77)
    state.sending?.record = SendRecord(
      sends: [.init(generation: Generation(3), at: sent, expires: nil)], number: 1)
    let stored = try #require(CountdownKind.stored(state))
    #expect(stored.owner == .none && stored.machine.phase == .idle(since: sent))
    #expect(stored.sending?.record == state.sending?.record)
  }

  @Test func ofAHUDWhatIsDurableIsStored() throws {
    var state = HUDEntity.blank("s".utf8.span)
    state.presentations = [(.normal, .blank), (.alert, .blank)]
    #expect(HUDKind.stored(state) == nil)
    state.presentations[1].machine.shows[0].request.isDurable = true
    state.presentations[1].machine.shows[0].owner = .connection(1)
    state.owners = [.connection(1)]
    let stored = try #require(HUDKind.stored(state))
    #expect(stored.presentations.map(\.level) == [.alert] && stored.owners == [])
    #expect(stored.presentations[0].machine.shown.owner == .none)
  }

  @Test func scopesStacksAndPagesEndWithTheDaemon() {
    #expect(ScopeKind.stored(.blank("s".utf8.span)) == nil)
    #expect(NavigationKind.stored(.blank("s".utf8.span)) == nil)
    #expect(PageKind.stored(.blank("s".utf8.span)) == nil)
    #expect(Set(EntityKind.allCases).subtracting(EntityKind.durable) == [.scope, .nav, .page])
  }
}
