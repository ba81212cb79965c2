import Countdowns
import Testing

/// The rules of HUDs, one test each.
@Suite struct HUDRuleTests {
  let hud = HUDTimeline()

  // MARK: Grace

  @Test func aHUDIsShownOnceGRACEIsOverAndNotBefore() {
    hud.at(0).show(grace: 500)
    hud.at(499).expect()
    hud.at(10_000).expect("500 will-appear", "650 did-appear")
  }

  @Test func withEARLYSkipADismissalInGRACEEndsAsNeverShownAtOnceAndNothingAppears() {
    hud.at(0).show(grace: 500, min: 1_000)
    hud.at(300).dismiss()
    hud.at(10_000).expect("300 did-disappear never-shown")
    #expect(hud.machine?.end == .neverShown)
    #expect(hud.machine?.isDismissing == false)
  }

  @Test func withEARLYShowADismissalInGRACEShowsTheHUDAtOnceForMIN() {
    hud.at(0).show(grace: 500, min: 1_000, early: .show)
    hud.at(300).dismiss()
    hud.at(10_000).expect(
      "300 will-appear", "450 did-appear", "1450 will-disappear dismissed",
      "1600 did-disappear dismissed")
  }

  @Test func withEARLYShowADelayedDismissalInGRACEShowsTheHUDToo() {
    hud.at(0).show(grace: 500, min: 1_000, fade: 0, early: .show)
    hud.at(0).dismiss(delay: 100)
    hud.at(10_000).expect(
      "100 will-appear", "100 did-appear", "1100 will-disappear dismissed",
      "1100 did-disappear dismissed")
  }

  // MARK: MIN

  @Test func aDismissalBeforeMINHappensAtMINCountedFromDidAppear() {
    hud.at(0).show(min: 500)
    hud.at(200).dismiss()
    #expect(hud.remaining == 450)
    hud.at(10_000).expect(
      "0 will-appear", "150 did-appear", "650 will-disappear dismissed",
      "800 did-disappear dismissed")
  }

  @Test func aDismissalAfterMINHappensAtOnce() {
    hud.at(0).show(min: 500)
    hud.at(651).dismiss()
    hud.expect("0 will-appear", "150 did-appear", "651 will-disappear dismissed")
  }

  @Test func minfromRequestCountsFromSHOWAlsoIfItEndsInTheFadeIn() {
    hud.at(0).show(grace: 100, min: 400, from: .request)
    hud.at(300).dismiss()
    hud.at(401).expect("100 will-appear", "250 did-appear", "400 will-disappear dismissed")
    let short = HUDTimeline()
    short.at(0).show(min: 10, from: .request)
    short.at(20).dismiss()
    short.at(200).expect(
      "0 will-appear", "20 will-disappear dismissed", "40 did-disappear dismissed")
  }

  @Test func minfromStopCountsFromTheDismissal() {
    hud.at(0).show(min: 500, from: .stop)
    hud.at(2_000).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "150 did-appear", "2500 will-disappear dismissed",
      "2650 did-disappear dismissed")
  }

  @Test func minfromAppearCountsFromWillAppearAsMBProgressHUDDoes() {
    hud.at(0).show(grace: 100, min: 400, from: .appear)
    hud.at(300).dismiss()
    hud.at(10_000).expect(
      "100 will-appear", "250 did-appear", "500 will-disappear dismissed",
      "650 did-disappear dismissed")
  }

  @Test func minfromAppearThatEndsInTheFadeInReversesItThere() {
    hud.at(0).show(min: 60, from: .appear)
    hud.at(10).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "60 will-disappear dismissed", "120 did-disappear dismissed")
  }

  // MARK: In the fade-in

  @Test func aDismissalInTheFadeInReversesItFromWhereItIs() {
    hud.at(0).show(fade: 150)
    hud.at(50).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "50 will-disappear dismissed", "100 did-disappear dismissed")
  }

  @Test func aDismissalWithMINFinishesTheFadeInAsMINCountsFromDidAppear() {
    hud.at(0).show(min: 100)
    hud.at(50).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "150 did-appear", "250 will-disappear dismissed",
      "400 did-disappear dismissed")
  }

  @Test func theEndOfTheFadeInAndOfMINMeetItAppearsFirst() {
    hud.at(0).show(min: 150, from: .appear)
    hud.at(50).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "150 did-appear", "150 will-disappear dismissed",
      "300 did-disappear dismissed")
  }

  @Test func delayAndTAPInTheFadeInReverseItToo() {
    hud.at(0).show()
    hud.at(10).dismiss(delay: 20)
    hud.at(60).expect(
      "0 will-appear", "30 will-disappear dismissed", "60 did-disappear dismissed")
    hud.at(1_000).show()
    hud.at(1_100).tap()
    hud.at(2_000).expect(
      "1000 will-appear #2", "1100 touched #2", "1100 will-disappear #2 tapped",
      "1200 did-disappear #2 tapped")
  }

  @Test func aFadeInThatWasPausedIsReversedFromWhereItStoodStill() {
    hud.at(0).show()
    hud.at(40).pause()
    hud.at(1_000).dismiss()
    hud.at(2_000).resume()
    hud.at(9_000).expect(
      "0 will-appear", "40 paused", "2000 resumed", "2000 will-disappear dismissed",
      "2040 did-disappear dismissed")
  }

  @Test func showWhileAReversedFadeInDisappearsBeginsANewFadeIn() {
    hud.at(0).show()
    hud.at(100).dismiss()
    hud.at(150).show()
    hud.at(9_000).expect(
      "0 will-appear #1", "100 will-disappear #1 dismissed", "150 did-disappear #1 dismissed",
      "150 will-appear #2", "300 did-appear #2")
  }

  @Test func aSecondDismissalDoesNotRestartMINFROMStop() {
    hud.at(0).show(min: 500, fade: 0, from: .stop)
    hud.at(1_000).dismiss()
    hud.at(1_400).dismiss()
    hud.at(1_450).dismiss(delay: 5_000)
    hud.at(1_500).expect(
      "0 will-appear", "0 did-appear", "1500 will-disappear dismissed",
      "1500 did-disappear dismissed")
  }

  // MARK: MAX

  @Test func maxCountsFromDidAppearAndThenTheHUDTimesOut() {
    hud.at(0).show(grace: 300, max: 1_000)
    hud.at(10_000).expect(
      "300 will-appear", "450 did-appear", "1450 will-disappear timed-out",
      "1600 did-disappear timed-out")
  }

  @Test func maxWinsOverMIN() {
    hud.at(0).show(min: 5_000, max: 1_000, fade: 0)
    hud.at(500).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "1000 will-disappear timed-out",
      "1000 did-disappear timed-out")
  }

  @Test func ifMAXAndAHeldDismissalMeetTheDismissalIsTheReason() {
    hud.at(0).show(min: 1_000, max: 1_000, fade: 0)
    hud.at(500).dismiss()
    hud.at(1_000).expect(
      "0 will-appear", "0 did-appear", "1000 will-disappear dismissed",
      "1000 did-disappear dismissed")
  }

  @Test func aMessageThatReplacesAnotherRestartsMAX() {
    hud.at(0).show(.info, max: 1_000, fade: 0)
    hud.at(900).show(.info, max: 1_000, fade: 0)
    hud.at(10_000).expect(
      "0 will-appear #1", "0 did-appear #1", "900 updated #2 over #1",
      "1900 will-disappear #2 timed-out", "1900 did-disappear #2 timed-out")
  }

  @Test func aMessageStaysForItsLengthWithinMinAndMax() {
    for kind in [Presentation.Kind.info, .success, .error] {
      let capped = HUDTimeline()
      capped.at(0).show(kind, "hello", max: 300, fade: 0)
      capped.at(300).expect(
        "0 will-appear", "0 did-appear", "300 will-disappear timed-out",
        "300 did-disappear timed-out")
      let read = HUDTimeline()
      read.at(0).show(kind, "hello", fade: 0, readFor: 0)
      read.at(800).expect(
        "0 will-appear", "0 did-appear", "800 will-disappear timed-out",
        "800 did-disappear timed-out")
    }
  }

  @Test func loadingAndProgressStayUntilTheyAreDismissed() {
    for kind in [Presentation.Kind.loading, .progress] {
      let hud = HUDTimeline()
      hud.at(0).show(kind, "hello")
      hud.at(1_000_000_000).expect("0 will-appear", "150 did-appear")
      #expect(hud.remaining == nil)
    }
  }

  @Test func aMessagesTimeFollowsItsText() {
    hud.at(0).show(.info, "a", fade: 0, readFor: 0)
    hud.at(100).update("0123456789")
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "100 updated", "1100 will-disappear timed-out",
      "1100 did-disappear timed-out")
    hud.at(20_000).show(.info, "0123456789", fade: 0, readFor: 0)
    hud.at(20_700).update("a")
    hud.expect(
      "20000 will-appear #2", "20000 did-appear #2", "20700 updated #2",
      "20700 will-disappear #2 timed-out", "20700 did-disappear #2 timed-out")
  }

  // MARK: Superseding

  @Test func aNewSHOWWhileVisibleNeitherFlickersNorRestartsMIN() {
    hud.at(0).show(min: 1_000, fade: 0)
    hud.at(800).show(min: 1_000, fade: 0)
    hud.at(900).dismiss()
    hud.at(10_000).expect(
      "0 will-appear #1", "0 did-appear #1", "800 updated #2 over #1",
      "1000 will-disappear #2 dismissed", "1000 did-disappear #2 dismissed")
  }

  @Test func aNewSHOWOfAnotherKindRestartsMIN() {
    hud.at(0).show(min: 1_000, fade: 0)
    hud.at(800).show(.progress, min: 1_000, fade: 0)
    hud.at(900).dismiss()
    hud.at(10_000).expect(
      "0 will-appear #1", "0 did-appear #1", "800 updated #2 over #1",
      "1800 will-disappear #2 dismissed", "1800 did-disappear #2 dismissed")
  }

  @Test func aNewSHOWInTheFadeInContinuesTheFadeIn() {
    hud.at(0).show()
    hud.at(100).show()
    hud.at(10_000).expect("0 will-appear #1", "100 updated #2 over #1", "150 did-appear #2")
  }

  @Test func aNewSHOWCancelsAHeldDismissal() {
    hud.at(0).show(min: 1_000, fade: 0)
    hud.at(100).dismiss()
    hud.at(200).show(fade: 0)
    hud.at(10_000).expect("0 will-appear #1", "0 did-appear #1", "200 updated #2 over #1")
    #expect(hud.machine?.isDismissing == false)
  }

  @Test func showWhileDisappearingTakesOverAtOnceWithoutGraceAndEventsStayPaired() {
    hud.at(0).show()
    hud.at(1_000).dismiss()
    hud.at(1_100).show(grace: 500)
    hud.at(60_000).expect(
      "0 will-appear #1", "150 did-appear #1", "1000 will-disappear #1 dismissed",
      "1100 did-disappear #1 dismissed", "1100 will-appear #2", "1250 did-appear #2")
  }

  // MARK: DELAY

  @Test func delayDismissesAfterThatTimeALaterDISMISSReplacesIt() {
    hud.at(0).show(fade: 0)
    hud.at(100).dismiss(delay: 1_000)
    hud.at(200).dismiss(delay: 300)
    hud.at(10_000).expect(
      "0 will-appear", "0 did-appear", "500 will-disappear dismissed",
      "500 did-disappear dismissed")
    let other = HUDTimeline()
    other.at(0).show(fade: 0)
    other.at(100).dismiss(delay: 1_000)
    other.at(200).dismiss()
    other.expect(
      "0 will-appear", "0 did-appear", "200 will-disappear dismissed",
      "200 did-disappear dismissed")
  }

  @Test func ifDELAYEndsBeforeMINTheRemainingTimeCountsToMIN() {
    hud.at(0).show(min: 5_000, fade: 0)
    hud.at(0).dismiss(delay: 1_000)
    #expect(hud.remaining == 5_000)
    hud.at(2_000).expect("0 will-appear", "0 did-appear")
    #expect(hud.remaining == 3_000)
    hud.at(5_000).expect("5000 will-disappear dismissed", "5000 did-disappear dismissed")
  }

  @Test func delayWithMINFROMStopMINCountsFromTheEndOfTheDelay() {
    hud.at(0).show(min: 500, fade: 0, from: .stop)
    hud.at(0).dismiss(delay: 1_000)
    #expect(hud.remaining == 1_500)
    hud.at(1_500).expect(
      "0 will-appear", "0 did-appear", "1500 will-disappear dismissed",
      "1500 did-disappear dismissed")
  }

  // MARK: Lateness

  @Test func noticedLateEventsCarryTheirOwnDueTimesAndStayPaired() {
    hud.at(0).show(grace: 100, max: 1_000)
    hud.late(at: 5_000).expect("5000 will-appear")
    hud.late(at: 9_000).expect("9000 did-appear")
    hud.late(at: 10_000).expect("10000 will-disappear timed-out")
    hud.late(at: 99_000).expect("99000 did-disappear timed-out")
  }
}
