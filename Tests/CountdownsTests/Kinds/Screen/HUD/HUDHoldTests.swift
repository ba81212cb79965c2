import Countdowns
import Testing

/// Several requests share one HUD: each hold keeps the options of its SHOW.
@Suite struct HUDHoldTests {
  let hud = HUDTimeline()
  let alice = Owner.connection(1)
  let bob = Owner.connection(2)

  // MARK: Grace

  @Test func eightSHOWs400MsApartWithGRACE500msAppearAt500Ms() {
    for number in 0..<8 as Range<Int64> { hud.at(number * 400).show(grace: 500, fade: 0) }
    #expect(hud.holds == 8)
    for _ in 0..<8 { hud.at(3_000).pop() }
    hud.expect(
      "400 updated #2 over #1", "500 will-appear #2", "500 did-appear #2",
      "800 updated #3 over #2", "1200 updated #4 over #3", "1600 updated #5 over #4",
      "2000 updated #6 over #5", "2400 updated #7 over #6", "2800 updated #8 over #7",
      "3000 updated #8", "3000 updated #8", "3000 updated #8", "3000 updated #8",
      "3000 updated #8", "3000 updated #8", "3000 updated #8", "3000 will-disappear #8 dismissed",
      "3000 did-disappear #8 dismissed")
  }

  @Test func requestsOf450MsThatOverlapAppearAt500MsWhicheverPOPNamesWhom() {
    for names in [true, false] {
      let hud = HUDTimeline()
      for number in 0..<8 as Range<Int64> {
        hud.at(number * 400).show(grace: 500, fade: 0)
        // The previous request ends 50 ms after this one began.
        if number > 0 { hud.at(number * 400 + 50).pop(names ? number : nil) }
      }
      hud.at(3_250).pop()
      let lines = hud.takeLines()
      #expect(lines.filter { $0.hasSuffix("will-appear #2") } == ["500 will-appear #2"])
      #expect(lines.last == "3250 did-disappear #8 dismissed")
      #expect(lines.filter { $0.contains("will-disappear") }.count == 1)
    }
  }

  @Test func aHoldWithoutGraceShowsAtOnceWhatOthersWaitFor() {
    hud.at(0).show(grace: 2_000, fade: 0)
    hud.at(100).show(grace: 50, fade: 0)
    hud.expect("100 updated #2 over #1", "100 will-appear #2", "100 did-appear #2")
  }

  @Test func poppingTheHoldWithTheShortestGraceRestoresTheGraceOfTheOthers() {
    hud.at(0).show(grace: 2_000, fade: 0)
    hud.at(100).show(grace: 500, fade: 0)
    hud.at(200).pop()
    hud.at(9_000).expect(
      "100 updated #2 over #1", "200 updated #2", "2000 will-appear #2", "2000 did-appear #2")
  }

  @Test func graceStartsOverWhenNoHoldWasLeftInBetween() {
    hud.at(0).show(grace: 500, fade: 0)
    hud.at(400).pop()
    hud.at(450).show(grace: 500, fade: 0)
    hud.at(950).expect(
      "400 did-disappear #1 never-shown", "950 will-appear #2", "950 did-appear #2")
    let delayed = HUDTimeline()
    delayed.at(0).show(grace: 500, fade: 0)
    delayed.at(100).dismiss(delay: 10_000)
    delayed.at(400).show(grace: 500, fade: 0)
    delayed.at(900).expect(
      "400 updated #2 over #1", "900 will-appear #2", "900 did-appear #2")
  }

  // MARK: Mask

  @Test func aMaskedSubmitBesideAListKeepsItsMaskWhileItIsPending() {
    hud.at(0).show(fade: 0, mask: .custom, request: "/api/Order/Submit")
    hud.at(100).show(fade: 0, request: "/api/Order/List")
    #expect(hud.mask == .custom)
    hud.at(200).tap()
    hud.at(300).pop(request: "/api/Order/List")
    #expect(hud.mask == .custom)
    hud.at(400).tap()
    hud.at(500).pop(request: "/api/Order/Submit")
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "200 touched #2",
      "300 updated #2", "400 touched #2", "500 will-disappear #2 dismissed",
      "500 did-disappear #2 dismissed")
  }

  @Test func aSubmitThatEndsBeforeTheListTakesItsMaskAlongByRequestOrGeneration() {
    for names in [true, false] {
      let hud = HUDTimeline()
      hud.at(0).show(fade: 0, mask: .custom, request: "/api/Order/Submit")
      hud.at(100).show(fade: 0, request: "/api/Order/List")
      if names { hud.at(200).pop(1) } else { hud.at(200).pop(request: "/api/Order/Submit") }
      #expect(hud.mask == Presentation.Mask.none)
      hud.at(300).tap()
      hud.expect(
        "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "200 updated #2",
        "300 touched #2", "300 will-disappear #2 tapped", "300 did-disappear #2 tapped")
    }
  }

  @Test func theStrictestMaskOfAllHoldsIsShown() {
    let masks: [Presentation.Mask] = [.none, .clear, .black, .gradient, .custom]
    for mask in masks.reversed() { hud.at(0).show(fade: 0, mask: mask) }
    for mask in masks.reversed() {
      #expect(hud.mask == mask)
      hud.at(100).pop(by: .none, hud.machine!.holds.first!.generation.value)
    }
    #expect(Presentation.Mask.allCases.sorted() == masks)
  }

  @Test func whatIsDismissedKeepsTheStrictestMaskUntilItIsGone() {
    hud.at(0).show(min: 1_000, fade: 0, mask: .custom)
    hud.at(100).show(min: 1_000, fade: 0)
    hud.at(200).dismiss()
    #expect(hud.mask == .custom)
    #expect(hud.holds == 0)
    hud.at(300).tap()
    hud.at(9_000).expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "300 touched #2",
      "1000 will-disappear #2 dismissed", "1000 did-disappear #2 dismissed")
  }

  // MARK: MAX

  @Test func maxEndsItsOwnHoldAndDoesNotRestartWithEachSHOW() {
    for number in 0..<4 as Range<Int64> { hud.at(number * 400).show(max: 1_000, fade: 0) }
    hud.at(9_000).expect(
      "0 will-appear #1", "0 did-appear #1", "400 updated #2 over #1", "800 updated #3 over #2",
      "1000 updated #3", "1200 updated #4 over #3", "1400 updated #4", "1800 updated #4",
      "2200 will-disappear #4 timed-out", "2200 did-disappear #4 timed-out")
  }

  @Test func aHoldWithoutMAXOutlivesOneWithMAXAndTheOtherWayRound() {
    hud.at(0).show(max: 1_000, fade: 0)
    hud.at(100).show(fade: 0)
    #expect(hud.remaining == nil)
    hud.at(1_000).expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "1000 updated #2")
    hud.at(1_500).show(max: 1_000, fade: 0)
    hud.at(9_000).pop()
    hud.expect(
      "1500 updated #3 over #2", "2500 updated #3", "9000 will-disappear #3 dismissed",
      "9000 did-disappear #3 dismissed")
  }

  @Test func theTimeLeftIsThatOfTheHoldThatLastsLongest() {
    hud.at(0).show(max: 3_000, fade: 0)
    hud.at(100).show(max: 1_000, fade: 0)
    #expect(hud.remaining == 2_900)
  }

  @Test func noticedLateEachHoldEndsAtItsOwnDueTimeAndTheLastOneEndsTheHUD() {
    hud.at(0).show(max: 1_000, fade: 0)
    hud.at(100).show(max: 2_000, fade: 0)
    hud.late(at: 9_000).expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "9000 updated #2",
      "9000 will-disappear #2 timed-out", "9000 did-disappear #2 timed-out")
  }

  // MARK: POP

  @Test func popRestoresWhatRemains() {
    hud.at(0).show(.loading, "first", fade: 0, mask: .clear)
    hud.at(100).show(.progress, "second", fade: 0, mask: .black)
    hud.at(150).update(fraction: 0.5)
    #expect(hud.status == "second")
    hud.at(200).pop()
    #expect(hud.status == "first")
    #expect(hud.machine?.shown.request.kind == .loading)
    #expect(hud.machine?.shown.fraction == nil)
    #expect(hud.mask == .clear)
    #expect(hud.holds == 1)
  }

  @Test func kindProgressTakesAHoldPoppingTheLastHoldDismisses() {
    hud.at(0).show(.progress, fade: 0)
    #expect(hud.holds == 1)
    hud.at(100).show(.progress, fade: 0)
    hud.at(200).pop()
    hud.at(300).pop()
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "200 updated #2",
      "300 will-disappear #2 dismissed", "300 did-disappear #2 dismissed")
  }

  @Test func popReleasesOnesOwnNewestHoldElseNobodysNewestElseTheNewest() {
    for owner in [alice, .none, bob, alice, bob] { hud.at(0).show(fade: 0, by: owner) }
    var left: [[Int64]] = []
    while hud.holds > 1 {
      hud.at(100).pop(by: bob)
      left.append(hud.machine!.holds.map(\.generation.value))
    }
    #expect(left == [[1, 2, 3, 4], [1, 2, 4], [1, 4], [1]])
  }

  @Test func popOfAHoldThatIsNotThereChangesNothing() {
    hud.at(0).show(fade: 0, request: "/api/a")
    hud.at(100).pop(request: "/api/b")
    hud.at(100).pop(7)
    #expect(hud.holds == 1)
    hud.expect("0 will-appear", "0 did-appear")
  }

  @Test func statusAndPROGRESSWithAGenerationChangeThatHoldAlsoBehindAnother() {
    hud.at(0).show(.progress, "one", fade: 0)
    hud.at(0).show(.loading, "two", fade: 0)
    hud.at(100).update(hold: 1, fraction: 0.5, "half")
    #expect(hud.status == "two")
    #expect(hud.machine?.shown.fraction == nil)
    hud.at(200).pop(2)
    #expect(hud.status == "half")
    #expect(hud.machine?.shown.fraction == 0.5)
  }

  // MARK: Owners

  @Test func ownersThatEndAtOnceReleaseTheirHoldsAtOnce() {
    for owner in [alice, .none, bob, alice] { hud.at(0).show(fade: 0, by: owner) }
    hud.at(100).gone(alice, bob)
    #expect(hud.machine?.shown.owner == Owner.none)
    hud.at(200).pop()
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "0 updated #2 over #1", "0 updated #3 over #2",
      "0 updated #4 over #3", "100 updated #4", "200 will-disappear #4 dismissed",
      "200 did-disappear #4 dismissed")
  }

  @Test func theStrictMaskOfACrashedClientGoesWithIt() {
    hud.at(0).show(fade: 0, mask: .custom, by: alice)
    hud.at(0).show(fade: 0, by: bob)
    hud.at(100).gone(alice)
    #expect(hud.mask == Presentation.Mask.none)
  }

  // MARK: Pausing

  @Test func pauseStopsTheMAXOfEveryHold() {
    hud.at(0).show(max: 1_000, fade: 0)
    hud.at(400).show(max: 1_000, fade: 0)
    hud.at(500).pause()
    hud.at(1_500).resume()
    hud.at(9_000).expect(
      "0 will-appear #1", "0 did-appear #1", "400 updated #2 over #1", "500 paused #2",
      "1500 resumed #2", "2000 updated #2", "2400 will-disappear #2 timed-out",
      "2400 did-disappear #2 timed-out")
  }
}
