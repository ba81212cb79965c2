import Countdowns
import Testing

/// Which replicas must have a change.
@Suite struct ReplicaSetTests {
  private let second: Int64 = 1_000_000
  private let b = FleetSettings.Node(host: "b", port: 1)
  private let c = FleetSettings.Node(host: "c", port: 1)
  private let d = FleetSettings.Node(host: "d", port: 1)
  private var set = ReplicaSet(grace: .seconds(10))

  private func report(
    _ offset: Int64, _ replicas: [FleetSettings.Node: Int64], silence: Int64 = 0
  ) -> ReplicaSet.Report {
    ReplicaSet.Report(
      offset: offset,
      replicas: replicas.mapValues {
        ReplicaSet.Replica(offset: $0, silence: silence, isOnline: true)
      })
  }

  @Test mutating func eachMemberMustHaveAcknowledgedTheChange() {
    let attached = report(7, [b: 7, c: 6])
    set.note(attached, at: 0)
    #expect(set.problem(of: 7, in: attached) == "replica c:1 has not confirmed it")
    #expect(set.problem(of: 6, in: attached) == nil)
  }

  @Test mutating func anotherReplicaDoesNotStandInForOneThatIsGone() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    let later = report(9, [b: 9, d: 9])
    set.note(later, at: second)
    #expect(set.problem(of: 9, in: later) == "replica c:1 has not confirmed it")
  }

  @Test mutating func aMissingReplicaIsForgottenAfterTheGraceIfAMajorityIsAskedThen() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    set.note(report(2, [b: 2]), at: 3 * second)
    #expect(set.overdue(at: 13 * second - 1) == nil)
    #expect(set.overdue(at: 20 * second) == 13 * second)
    // An answer to an earlier question does not count.
    set.forget(asked: 13 * second - 1)
    #expect(set.missing == [c])
    set.forget(asked: 13 * second)
    #expect(set.missing == [] && set.count == 1)
  }

  /// A primary that was paused may have been replaced meanwhile: its pause does not count.
  @Test mutating func theGraceBeginsWhenALivingPrimaryIsSeenWithoutTheReplica() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    set.note(report(2, [b: 2]), at: 60 * second)
    #expect(set.overdue(at: 69 * second) == nil)
  }

  @Test mutating func theLastReplicaIsNeverForgotten() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    set.note(report(2, [:]), at: second)
    #expect(set.overdue(at: 100 * second) == nil)
    set.forget(asked: 100 * second)
    #expect(set.missing == [b, c])
    #expect(ReplicaSet(grace: .zero).problem(of: 0, in: report(0, [:])) != nil)
  }

  @Test mutating func aConnectedReplicaThatIsSilentForLongerThanTheGraceIsMissing() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    set.note(report(1, [b: 1, c: 1], silence: 10 * second), at: second)
    #expect(set.missing == [])
    set.note(report(1, [b: 1, c: 1], silence: 10 * second + 1), at: 2 * second)
    #expect(set.missing == [b, c])
  }

  @Test mutating func aStartTakesAllThatAreListedAndLaterOnlyThoseThatCanBePromoted() {
    set.add([b: false, c: true], isFirst: true)
    #expect(set.count == 2)
    set.add([d: false], isFirst: false)
    #expect(!set.contains(d))
    set.add([d: true], isFirst: false)
    #expect(set.contains(d))
  }

  @Test mutating func aForgottenReplicaReturnsOnlyAfterItWasAttachedOrDown() {
    set.note(report(1, [b: 1, c: 1]), at: 0)
    set.note(report(1, [b: 1]), at: 0)
    set.forget(asked: 10 * second)
    set.add([b: true, c: true], isFirst: false)
    #expect(!set.contains(c))
    set.add([b: true, c: false], isFirst: false)
    set.add([b: true, c: true], isFirst: false)
    #expect(set.contains(c))
  }

  @Test mutating func aPromotedReplicaKeepsTheOthersAndTheirAbsence() {
    set.note(report(1, [b: 1, c: 1, d: 1]), at: 0)
    set.note(report(1, [b: 1, c: 1]), at: 5 * second)
    let new = set.promoted(b)
    #expect(!new.contains(b) && new.contains(c) && new.missing == [d])
  }
}
