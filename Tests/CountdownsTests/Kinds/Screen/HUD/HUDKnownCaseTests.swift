import Countdowns
import Testing

/// Defects of other HUDs, named by their issue numbers.
@Suite struct HUDKnownCaseTests {
  let hud = HUDTimeline()

  // MARK: Grace and delay together

  /// SV-828 (SVProgressHUD 828), MB-605 (MBProgressHUD 605): grace plus delayed dismiss: it hides
  @Test func graceThenDelayedDismissAfterGrace() {
    hud.at(0).show(grace: 500)
    hud.at(100).dismiss(delay: 1_000)
    hud.at(10_000).expect(
      "500 will-appear", "650 did-appear", "1100 will-disappear dismissed",
      "1250 did-disappear dismissed")
  }

  /// SV-828 (SVProgressHUD 828), MB-605 (MBProgressHUD 605): a delay that ends in grace: never
  /// shown
  @Test func graceThenDelayedDismissInGrace() {
    hud.at(0).show(grace: 500)
    hud.at(0).dismiss(delay: 200)
    hud.at(10_000).expect("200 did-disappear never-shown")
  }

  /// SV-828 (SVProgressHUD 828): grace and delay end in the same moment: decided, not both
  @Test func graceAndDelayMeet() {
    hud.at(0).show(grace: 500)
    hud.at(0).dismiss(delay: 500)
    hud.at(10_000).expect("500 did-disappear never-shown")
  }

  // MARK: An old HUD and a new one

  /// SV-1078, SV-671 (SVProgressHUD 1078, 671), MB-503 (MBProgressHUD 503): an old delayed dismiss
  /// does not kill the next message
  @Test func oldDelayedDismiss() {
    hud.at(0).show()
    hud.at(200).dismiss(delay: 1_000)
    hud.at(1_000).show(.info, "saved", readFor: 2_000)
    hud.at(2_999).expect(
      "0 will-appear #1", "150 did-appear #1", "1000 updated #2 over #1")
    hud.at(10_000).expect("3000 will-disappear #2 timed-out", "3150 did-disappear #2 timed-out")
  }

  /// MB-503 (MBProgressHUD 503): an old delayed dismiss does not kill what came after the end
  @Test func oldDelayedDismissAfterTheEnd() {
    hud.at(0).show(fade: 0)
    hud.at(0).dismiss(delay: 1_000)
    hud.at(100).dismiss()
    hud.at(200).show(fade: 0)
    hud.at(5_000).expect(
      "0 will-appear #1", "0 did-appear #1", "100 will-disappear #1 dismissed",
      "100 did-disappear #1 dismissed", "200 will-appear #2", "200 did-appear #2")
  }

  /// MB-PR-108 (MBProgressHUD PR 108): an old message's grace does not show the next one early
  @Test func oldGrace() {
    hud.at(0).show(.info, grace: 500)
    hud.at(400).show(.info, grace: 500)
    hud.at(5_000).expect(
      "400 updated #2 over #1", "900 will-appear #2", "1050 did-appear #2")
  }

  /// MB-PR-108 (MBProgressHUD PR 108): an old message's MIN does not hold the next one
  @Test func oldMinimum() {
    hud.at(0).show(min: 5_000, fade: 0)
    hud.at(100).dismiss()
    hud.at(200).show(.progress, min: 100, fade: 0)
    hud.at(1_000).dismiss()
    hud.expect(
      "0 will-appear #1", "0 did-appear #1", "200 updated #2 over #1",
      "1000 will-disappear #2 dismissed", "1000 did-disappear #2 dismissed")
  }

  // MARK: In one tick

  /// SV-229, SV-687 (SVProgressHUD 229, 687): show, dismiss, show in one tick: the last wins
  @Test func lastOfOneTickWins() {
    hud.at(0).show(.success, "first")
    hud.at(0).dismiss()
    hud.at(0).show(.loading, "second")
    hud.at(60_000).expect(
      "0 will-appear #1", "0 will-disappear #1 dismissed", "0 did-disappear #1 dismissed",
      "0 will-appear #2", "150 did-appear #2")
    #expect(hud.status == "second")
  }

  /// SV-229 (SVProgressHUD 229): show, dismiss, show in one tick without fades: the last wins
  @Test func lastOfOneTickWinsWithoutFades() {
    hud.at(0).show(fade: 0)
    hud.at(0).dismiss()
    hud.at(0).show(fade: 0)
    hud.at(60_000).expect(
      "0 will-appear #1", "0 did-appear #1", "0 will-disappear #1 dismissed",
      "0 did-disappear #1 dismissed", "0 will-appear #2", "0 did-appear #2")
  }

  /// SV-687 (SVProgressHUD 687): show, dismiss, show in one tick in grace: the last wins
  @Test func lastOfOneTickWinsInGrace() {
    hud.at(0).show(grace: 500)
    hud.at(0).dismiss()
    hud.at(0).show(grace: 500)
    hud.at(60_000).expect(
      "0 did-disappear #1 never-shown", "500 will-appear #2", "650 did-appear #2")
  }

  /// SV-591, SV-594 (SVProgressHUD 591, 594): dismiss right after show: it goes, in pairs
  @Test func dismissRightAfterShow() {
    hud.at(0).show()
    hud.at(0).dismiss()
    hud.at(10_000).expect(
      "0 will-appear", "0 will-disappear dismissed", "0 did-disappear dismissed")
    #expect(hud.machine?.isHidden == true)
  }

  // MARK: Threshold

  /// NV-121, NV-158, NV-165 (NVActivityIndicatorView 121, 158, 165): stop before the threshold:
  /// never shown, also not later
  @Test func stopBeforeTheThreshold() {
    hud.at(0).show(grace: 200)
    hud.at(199).dismiss()
    hud.at(60_000).expect("199 did-disappear never-shown")
    #expect(hud.machine?.nextExpiry == nil)
  }

  /// NV-158 (NVActivityIndicatorView 158): stop at the threshold itself: shown, and hidden
  @Test func stopAtTheThreshold() {
    hud.at(0).show(grace: 200, min: 300)
    hud.at(200).dismiss()
    hud.at(60_000).expect(
      "200 will-appear", "350 did-appear", "650 will-disappear dismissed",
      "800 did-disappear dismissed")
  }

  /// NV-PR-218 (NVActivityIndicatorView PR 218): start while waiting to stop: it stays
  @Test func startWhileWaitingToStop() {
    hud.at(0).show(min: 1_000)
    hud.at(200).dismiss()
    hud.at(900).show(min: 1_000)
    hud.at(60_000).expect(
      "0 will-appear #1", "150 did-appear #1", "900 updated #2 over #1")
    hud.at(60_000).dismiss()
    hud.expect("60000 will-disappear #2 dismissed")
  }

  // MARK: Counting

  /// SV-623, SV-268 (SVProgressHUD 623, 268): the activity count never drops below zero: surplus
  /// pops do not swallow the next show
  @Test func surplusPops() {
    hud.at(0).show(fade: 0)
    for _ in 0..<5 { hud.at(100).pop() }
    hud.at(200).show(fade: 0)
    #expect(hud.holds == 1)
    hud.at(300).expect(
      "0 will-appear #1", "0 did-appear #1", "100 will-disappear #1 dismissed",
      "100 did-disappear #1 dismissed", "200 will-appear #2", "200 did-appear #2")
  }

  /// SV-212 (SVProgressHUD 212): pops in the fade-out do not count against the next show
  @Test func popsInTheFadeOut() {
    hud.at(0).show()
    hud.at(0).show()
    hud.at(200).pop()
    hud.at(300).pop()
    hud.at(350).pop()
    hud.at(400).show()
    #expect(hud.holds == 1)
    hud.at(410).pop()
    hud.at(10_000).expect(
      "0 will-appear #1", "0 updated #2 over #1", "150 did-appear #2",
      "200 updated #2", "300 will-disappear #2 dismissed", "400 did-disappear #2 dismissed",
      "400 will-appear #3", "410 will-disappear #3 dismissed", "420 did-disappear #3 dismissed")
  }

  /// SV-1082 (SVProgressHUD 1082): a dismissal drops all leases: none is left over for the next
  /// show
  @Test func dismissDropsLeases() {
    for _ in 0..<3 { hud.at(0).show(min: 1_000) }
    hud.at(200).dismiss()
    #expect(hud.holds == 0)
    hud.at(300).show()
    hud.at(400).pop()
    #expect(hud.holds == 0)
    hud.at(10_000).expect(
      "0 will-appear #1", "0 updated #2 over #1", "0 updated #3 over #2", "150 did-appear #3",
      "300 updated #4 over #3", "400 will-disappear #4 dismissed", "550 did-disappear #4 dismissed")
  }

  // MARK: Durations

  /// SV-1067 (SVProgressHUD 1067): 60 s asked are 60 s
  @Test func sixtySeconds() {
    hud.at(0).show(.info, "long", readFor: 60_000)
    hud.at(60_149).expect("0 will-appear", "150 did-appear")
    hud.at(70_000).expect("60150 will-disappear timed-out", "60300 did-disappear timed-out")
  }

  @Test func aLongStatusStaysLongerThanTheMaximum() {
    hud.at(0).show(.success, String(repeating: "x", count: 75), fade: 0)
    hud.at(20_000).expect(
      "0 will-appear", "0 did-appear", "5000 will-disappear timed-out",
      "5000 did-disappear timed-out")
    hud.at(20_000).show(.success, String(repeating: "x", count: 100), fade: 0)
    hud.at(40_000).expect(
      "20000 will-appear #2", "20000 did-appear #2", "26500 will-disappear #2 timed-out",
      "26500 did-disappear #2 timed-out")
  }

  @Test func aStatusIsMeasuredAsUTF16AnEmojiCountsForTwoAnUmlautForOne() {
    func longest(_ status: String) -> Int64? {
      Presentation.Request(kind: .info, status: Array(status.utf8), messageMinimum: .zero)
        .longest?.millisecondsRoundedUp
    }
    #expect(longest("") == 500)
    #expect(longest("a") == 560)
    #expect(longest("ä") == 560)
    #expect(longest("重") == 560)
    #expect(longest("😀") == 620)
    #expect(longest("👨‍👩‍👧") == Int64("👨‍👩‍👧".utf16.count) * 60 + 500)
  }
}
