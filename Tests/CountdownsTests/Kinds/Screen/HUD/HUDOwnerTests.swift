import Countdowns
import Testing

/// Holds, taps, pauses and progress of HUDs.
@Suite struct HUDOwnerTests {
  let hud = HUDTimeline()
  let alice = Owner.connection(1)
  let bob = Owner.connection(2)

  // MARK: Holds

  @Test func eachSHOWOfLoadingAddsAHoldPOPReleasesOneAndTheLastPOPDismisses() {
    hud.at(0).show(fade: 0)
    hud.at(100).show(fade: 0)
    #expect(hud.holds == 2)
    hud.at(200).pop()
    hud.at(300).pop()
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1", "200 updated #2",
      "300 will-disappear #2 dismissed", "300 did-disappear #2 dismissed")
  }

  @Test func aMessageDropsTheHoldsPOPThenChangesNothing() {
    hud.at(0).show(fade: 0)
    hud.at(100).show(.info, fade: 0, readFor: 60_000)
    #expect(hud.holds == 0)
    hud.at(200).pop()
    hud.at(10_000).expect("0 will-appear #1", "0 did-appear #1", "100 updated #2 over #1")
  }

  @Test func anOwnerThatEndsReleasesItsHoldsWithTheLastHoldTheHUDEndsAsOwnerGone() {
    hud.at(0).show(fade: 0, by: alice)
    hud.at(0).show(fade: 0, by: alice)
    hud.at(0).show(fade: 0, by: bob)
    hud.at(100).gone(alice)
    #expect(hud.holds == 1)
    hud.at(200).gone(alice)
    hud.at(300).gone(bob)
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "0 updated #2 over #1", "0 updated #3 over #2",
      "100 updated #3", "300 will-disappear #3 owner-gone", "300 did-disappear #3 owner-gone")
  }

  @Test func aMessageEndsWithItsOwnerButNotBeforeMIN() {
    hud.at(0).show(.progress, min: 1_000, fade: 0, by: alice)
    hud.at(100).gone(bob)
    hud.at(200).gone(alice)
    hud.at(1_000).expect(
      "0 will-appear", "0 did-appear", "1000 will-disappear owner-gone",
      "1000 did-disappear owner-gone")
  }

  @Test func aHUDWhoseOwnerEndsInGraceIsNeverShown() {
    hud.at(0).show(grace: 500, by: alice)
    hud.at(100).gone(alice)
    hud.at(10_000).expect("100 did-disappear never-shown")
  }

  @Test func aPausedHUDEndsWithItsOwner() {
    hud.at(0).show(min: 1_000, fade: 0, by: alice)
    hud.at(500).pause()
    hud.at(5_000).gone(alice)
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "500 paused", "5000 resumed",
      "5500 will-disappear owner-gone", "5500 did-disappear owner-gone")
  }

  @Test func aCrashedClientsHUDDismissedWhilePausedDoesNotWaitForRESUMEForever() {
    hud.at(0).show(fade: 0, by: alice)
    hud.at(500).pause()
    hud.at(600).dismiss()
    hud.at(5_000).gone(bob)
    #expect(hud.machine?.isPaused == true)
    hud.at(9_000).gone(alice)
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "500 paused", "9000 resumed",
      "9000 will-disappear dismissed", "9000 did-disappear dismissed")
  }

  @Test func aCrashedClientsLoadingHUDDoesNotStayForTheRestOfItsDELAY() {
    hud.at(0).show(fade: 0, by: alice)
    hud.at(500).dismiss(delay: 60_000)
    hud.at(900).gone(alice)
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "900 will-disappear owner-gone",
      "900 did-disappear owner-gone")
  }

  @Test func theOwnerOfTheLastHoldBecomesTheOwnerOfTheHUD() {
    hud.at(0).show(fade: 0, by: bob)
    hud.at(100).show(fade: 0, by: alice)
    hud.at(200).gone(alice)
    #expect(hud.machine?.shown.owner == bob)
    #expect(hud.holds == 1)
  }

  @Test func aHoldOfAnotherOwnerKeepsAPausedHUDAndItStaysPaused() {
    hud.at(0).show(fade: 0, by: alice)
    hud.at(0).show(fade: 0, by: bob)
    hud.at(500).pause()
    hud.at(600).gone(alice)
    #expect(hud.machine?.isPaused == true)
  }

  // MARK: TAP

  @Test func tapSendsTouchedAndDismissesOnlyWithoutAMaskAndOutsideTheHUD() {
    for mask in Presentation.Mask.allCases {
      let hud = HUDTimeline()
      hud.at(0).show(fade: 0, mask: mask)
      hud.at(100).tap(inside: true)
      hud.expect("0 will-appear", "0 did-appear", "100 touched")
      hud.at(200).tap()
      if mask == .none {
        hud.expect("200 touched", "200 will-disappear tapped", "200 did-disappear tapped")
      } else {
        hud.expect("200 touched")
      }
    }
  }

  @Test func tapInGraceOnlySendsTouched() {
    hud.at(0).show(grace: 500)
    hud.at(100).tap()
    hud.at(501).expect("100 touched", "500 will-appear")
  }

  @Test func tapInTheFadeOutSendsTouchedForTheDisappearingHUDAndChangesNothing() {
    hud.at(0).show()
    hud.at(1_000).dismiss()
    hud.at(1_100).tap()
    hud.at(9_000).expect(
      "0 will-appear", "150 did-appear", "1000 will-disappear dismissed",
      "1100 touched dismissed", "1150 did-disappear dismissed")
  }

  @Test func tapBeforeMINDismissesAtMIN() {
    hud.at(0).show(min: 500, fade: 0)
    hud.at(100).tap()
    hud.at(500).expect(
      "0 will-appear", "0 did-appear", "100 touched", "500 will-disappear tapped",
      "500 did-disappear tapped")
  }

  // MARK: PAUSE

  @Test func pauseInGraceFadeInVisibleAndFadeOutAddsExactlyThePausedTime() {
    hud.at(0).show(grace: 100, max: 1_000)
    for pause in [50, 1_160, 3_000, 4_460] as [Int64] {
      hud.at(pause).pause()
      hud.at(pause + 1_000).resume()
    }
    hud.at(60_000).expect(
      "50 paused", "1050 resumed", "1100 will-appear", "1160 paused", "2160 resumed",
      "2250 did-appear", "3000 paused", "4000 resumed", "4250 will-disappear timed-out",
      "4400 did-disappear timed-out")
  }

  @Test func pauseKeepsWhatIsLeftOfMINAndOfADELAY() {
    hud.at(0).show(min: 1_000, fade: 0)
    hud.at(100).dismiss(delay: 200)
    hud.at(200).pause()
    #expect(hud.remaining == 800)
    hud.at(10_200).resume()
    #expect(hud.remaining == 800)
    hud.at(99_000).expect(
      "0 will-appear", "0 did-appear", "200 paused", "10200 resumed",
      "11000 will-disappear dismissed", "11000 did-disappear dismissed")
  }

  @Test func pauseAndRESUMEAreIdempotent() {
    hud.at(0).show(max: 1_000, fade: 0)
    hud.at(100).resume()
    hud.at(200).pause()
    hud.at(300).pause()
    hud.at(1_200).resume()
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "200 paused", "1200 resumed",
      "2000 will-disappear timed-out", "2000 did-disappear timed-out")
  }

  @Test func aDismissalWhilePausedHappensAfterRESUME() {
    hud.at(0).show(min: 1_000, fade: 0)
    hud.at(500).pause()
    hud.at(9_000).dismiss()
    hud.at(20_000).resume()
    hud.at(99_000).expect(
      "0 will-appear", "0 did-appear", "500 paused", "20000 resumed",
      "20500 will-disappear dismissed", "20500 did-disappear dismissed")
  }

  @Test func aNewSHOWIsNotPaused() {
    hud.at(0).show(fade: 0)
    hud.at(500).pause()
    hud.at(9_000).show(max: 1_000, fade: 0)
    hud.at(99_000).expect(
      "0 will-appear #1", "0 did-appear #1", "500 paused #1", "9000 updated #2 over #1",
      "10000 updated #2")
  }

  // MARK: Progress

  @Test func progressIsReportedUntilAnotherKindIsShown() {
    hud.at(0).show(.progress, fade: 0)
    hud.at(100).update(fraction: 0.5, "half")
    #expect(hud.machine?.shown.fraction == 0.5)
    #expect(hud.status == "half")
    hud.at(200).show(.progress, fade: 0)
    #expect(hud.machine?.shown.fraction == 0.5)
    hud.at(300).show(.success, fade: 0)
    #expect(hud.machine?.shown.fraction == nil)
  }

  @Test func aHiddenHUDIgnoresDISMISSPOPAndPAUSE() {
    hud.at(0).show(fade: 0)
    hud.at(100).dismiss()
    #expect(hud.machine?.isHidden == true)
    #expect(hud.machine?.isDismissing == false)
    #expect(hud.machine?.end == .dismissed)
    hud.at(200).dismiss()
    hud.at(300).pop()
    hud.at(400).pause()
    hud.expect(
      "0 will-appear", "0 did-appear", "100 will-disappear dismissed",
      "100 did-disappear dismissed")
  }
}
