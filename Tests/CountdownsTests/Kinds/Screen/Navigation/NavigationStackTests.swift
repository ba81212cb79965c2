import Countdowns
import Testing

/// Every change of state of a navigation stack, and every reason to refuse one.
@Suite struct NavigationStackTests {
  /// Returns a stack of a, b and c, with c on top.
  private func three() -> NavigationTimeline {
    let stack = NavigationTimeline("a")
    stack.push("b")
    stack.push("c")
    stack.forget()
    return stack
  }

  @Test func aPushedPageAppearsAsFirstAnUncoveredOneAsNotFirstWithPairedEvents() {
    let stack = NavigationTimeline("a")
    stack.expect("0 willAppear a moving", "0 didAppear a moving")
    #expect(stack.push("b") == nil)
    stack.expect(
      "0 willDisappear a", "0 willAppear b moving", "0 didDisappear a", "0 didAppear b moving")
    #expect(stack.pop() == nil)
    stack.expect(
      "0 willDisappear b moving", "0 willAppear a", "0 didDisappear b moving", "0 didAppear a")
    #expect(stack.pages == ["a"])
  }

  @Test func theRootCanBeNeitherPoppedNorSwipedAway() {
    let stack = NavigationTimeline("a")
    stack.forget()
    #expect(stack.pop() == .root)
    #expect(stack.root() == .root)
    #expect(stack.swipe() == .root)
    stack.expect()
  }

  @Test func poppingToTheRootSendsNoEventsForThePagesBetween() {
    let stack = three()
    #expect(stack.root() == nil)
    stack.expect(
      "0 willDisappear c moving", "0 willAppear a", "0 didDisappear c moving", "0 didAppear a")
    #expect(stack.pages == ["a"])
  }

  @Test func dismissingPopsToTheRootFirstThenRemovesIt() {
    let stack = three()
    stack.dismiss()
    stack.expect(
      "0 willDisappear c moving", "0 willAppear a", "0 didDisappear c moving", "0 didAppear a",
      "0 willDisappear a moving", "0 didDisappear a moving", "0 dismissed a")
    #expect(stack.pages.isEmpty)
  }

  @Test func aFinishedSwipePopsThePageOnTop() {
    let stack = three()
    #expect(stack.at(100).swipe() == nil)
    stack.expect("100 swiping c", "100 willDisappear c moving", "100 willAppear b")
    #expect(stack.at(200).progress(0.5) == nil)
    #expect(stack.machine.transition?.fraction == 0.5)
    #expect(stack.at(300).finish() == nil)
    stack.expect("200 progress c", "300 finished c", "300 didDisappear c moving", "300 didAppear b")
    #expect(stack.pages == ["a", "b"])
    #expect(stack.machine.nextExpiry == nil)
  }

  @Test func aCancelledSwipeRestoresEverythingAndEventsStayPaired() {
    let stack = three()
    stack.swipe()
    stack.forget()
    #expect(stack.at(300).cancel() == nil)
    stack.expect(
      "300 cancelled c", "300 willDisappear b", "300 willAppear c", "300 didDisappear b",
      "300 didAppear c")
    #expect(stack.pages == ["a", "b", "c"])
    #expect(stack.machine.transition == nil)
  }

  @Test func aSwipeWithoutProgressIsCancelledAtItsTimeoutProgressRenewsIt() {
    let stack = three()
    stack.swipe(timeout: 1_000)
    stack.at(900).progress(0.1)
    stack.forget()
    stack.at(1_899)
    stack.expect()
    stack.at(1_900)
    stack.expect(
      "1900 timedOut c due 1900", "1900 willDisappear b", "1900 willAppear c",
      "1900 didDisappear b", "1900 didAppear c")
    #expect(stack.pages.count == 3)
  }

  @Test func aTimeoutThatIsNoticedLateCarriesItsDueTime() {
    let stack = three()
    stack.swipe(timeout: 1_000)
    stack.forget()
    stack.late(at: 5_000)
    #expect(stack.machine.transition == nil)
    stack.at(5_000)
    #expect(stack.finish() == .notTransitioning)
  }

  @Test func theReasonsAgainstASwipeAreCheckedInOrder() {
    let stack = NavigationTimeline("a")
    #expect(stack.swipe(x: 99, dx: -1) == .root)
    stack.push("b", edge: 20, pops: false)
    #expect(stack.swipe(x: 99, dx: -1) == .disabled)
    stack.pop()
    stack.push("c", edge: 20)
    #expect(stack.swipe(x: 20.5, dx: -1) == .outsideEdge)
    #expect(stack.swipe(x: 20, dx: 0) == .direction)
    #expect(stack.swipe(x: 20, dx: -1) == .direction)
    stack.forget()
    #expect(stack.swipe(x: 20, dx: 0.1) == nil)
    #expect(stack.swipe(x: 99, dx: -1) == .transitioning)
    stack.cancel()
    stack.push("anywhere", edge: 0)
    #expect(stack.swipe(x: 300) == nil)
  }

  // MARK: Transitions that take time

  @Test func aPushThatTakesTimeThePageWillAppearAtOnceAndAppearsAtTheEnd() {
    let stack = NavigationTimeline("a")
    stack.forget()
    #expect(stack.at(100).push("b", bar: .hidden, .lasting(.milliseconds(350))) == nil)
    stack.expect("100 willDisappear a", "100 willAppear b moving")
    #expect(stack.pages == ["a", "b"])
    #expect(stack.machine.transition?.kind == .push)
    stack.at(449)
    stack.expect()
    #expect(stack.machine.bar == .shown)
    stack.at(450)
    stack.expect(
      "450 finished b due 450", "450 didDisappear a", "450 didAppear b moving bar hidden")
    #expect(stack.machine.transition == nil)
    #expect(stack.machine.nextExpiry == nil)
  }

  @Test func aPushUntilFINISHCanEndEarlyOrBeCancelled() {
    let stack = NavigationTimeline("a")
    stack.forget()
    #expect(stack.push("b", .untilFinished) == nil)
    #expect(stack.machine.nextExpiry == nil)
    #expect(stack.at(60_000).progress(0.5) == nil)
    #expect(stack.machine.nextExpiry == nil)
    #expect(stack.finish() == nil)
    stack.expect(
      "0 willDisappear a", "0 willAppear b moving", "60000 progress b", "60000 finished b",
      "60000 didDisappear a", "60000 didAppear b moving")
    #expect(stack.push("c", bar: .hidden, .lasting(.seconds(1))) == nil)
    #expect(stack.at(60_100).cancel() == nil)
    stack.expect(
      "60000 willDisappear b", "60000 willAppear c moving", "60100 cancelled c",
      "60100 willDisappear c moving", "60100 willAppear b", "60100 didDisappear c moving",
      "60100 didAppear b")
    #expect(stack.pages == ["a", "b"])
    #expect(stack.machine.bar == .shown)
  }

  @Test func aPopThatTakesTimeThePageLeavesAtTheEndOrStaysIfItIsCancelled() {
    let stack = three()
    #expect(stack.pop(.lasting(.milliseconds(350))) == nil)
    #expect(stack.machine.transition?.kind == .pop)
    #expect(stack.pages == ["a", "b", "c"])
    stack.expect("0 willDisappear c moving", "0 willAppear b")
    stack.at(350)
    stack.expect("350 finished c due 350", "350 didDisappear c moving", "350 didAppear b")
    #expect(stack.pages == ["a", "b"])
    #expect(stack.pop(.untilFinished) == nil)
    stack.forget()
    #expect(stack.cancel() == nil)
    stack.expect(
      "350 cancelled b", "350 willDisappear a", "350 willAppear b", "350 didDisappear a",
      "350 didAppear b")
    #expect(stack.pages == ["a", "b"])
  }

  @Test func aPresentedPageIsReportedAsPresentedAlsoAsItLeavesAndCannotBeSwipedAway() {
    let stack = NavigationTimeline("a")
    stack.forget()
    #expect(stack.push("m", style: .presented, .lasting(.milliseconds(100))) == nil)
    #expect(stack.machine.transition?.kind == .present)
    stack.at(100)
    #expect(stack.swipe() == .presented)
    stack.pop()
    stack.expect(
      "0 willDisappear a presented", "0 willAppear m moving presented",
      "100 finished m presented due 100", "100 didDisappear a presented",
      "100 didAppear m moving presented", "100 willDisappear m moving presented",
      "100 willAppear a presented", "100 didDisappear m moving presented",
      "100 didAppear a presented")
  }

  @Test(arguments: NavigationStack.Transition.Kind.allCases)
  func aTransitionAllowsOnlyFinishingCancellingAndDismissing(kind: NavigationStack.Transition.Kind)
  {
    let stack = three()
    switch kind {
    case .push: stack.push("d", .untilFinished)
    case .present: stack.push("d", style: .presented, .untilFinished)
    case .pop: stack.pop(.untilFinished)
    case .swipe: stack.swipe()
    }
    stack.forget()
    #expect(stack.machine.transition?.kind == kind)
    #expect(stack.push("e") == .transitioning)
    #expect(stack.push("e", style: .presented, .untilFinished) == .transitioning)
    #expect(stack.pop(.untilFinished) == .transitioning)
    #expect(stack.root() == .transitioning)
    #expect(stack.swipe(x: 99, dx: -1) == .transitioning)
    stack.expect()
    stack.dismiss()
    #expect(stack.pages.isEmpty)
  }

  @Test func whenAPageOfATransitionClosesTheTransitionIsFinishedFirst() {
    let stack = three()
    stack.push("d", .untilFinished)
    stack.forget()
    stack.close("d")
    stack.expect(
      "0 finished d", "0 didDisappear c", "0 didAppear d moving", "0 willDisappear d moving",
      "0 willAppear c", "0 didDisappear d moving", "0 didAppear c")
    #expect(stack.pages == ["a", "b", "c"])
    stack.push("e", .untilFinished)
    stack.forget()
    stack.close("c")
    stack.expect("0 finished e", "0 didDisappear c", "0 didAppear e moving")
    #expect(stack.pages == ["a", "b", "e"])
    stack.pop(.untilFinished)
    stack.forget()
    stack.close("b")
    stack.expect(
      "0 finished e", "0 didDisappear e moving", "0 didAppear b", "0 willDisappear b moving",
      "0 willAppear a", "0 didDisappear b moving", "0 didAppear a")
    #expect(stack.pages == ["a"])
    stack.push("f", .untilFinished)
    stack.close("a", "f")
    #expect(stack.pages.isEmpty)
    let popped = three()
    popped.pop(.untilFinished)
    popped.forget()
    popped.close("c")
    popped.expect("0 finished c", "0 didDisappear c moving", "0 didAppear b")
    #expect(popped.pages == ["a", "b"])
  }

  // MARK: Options of pages

  @Test func aPageWithoutABarOfItsOwnLeavesTheBarAsItIs() {
    let stack = NavigationTimeline("a", bar: .hidden)
    stack.push("b", bar: nil)
    #expect(stack.machine.bar == .hidden)
    stack.push("c", bar: .shown)
    stack.forget()
    stack.pop()
    stack.expect(
      "0 willDisappear c moving", "0 willAppear b", "0 didDisappear c moving", "0 didAppear b")
    #expect(stack.machine.bar == .shown)
  }

  @Test func setChangesAPageTheBarAtOnceWhereThePageHasAppearedElseWhenItDoes() {
    let stack = three()
    #expect(stack.set("x", edge: 1) == .noPage)
    stack.expect()
    #expect(stack.set("c", edge: 20, pops: true) == nil)
    #expect(stack.swipe(x: 21) == .outsideEdge)
    #expect(stack.set("c", pops: false) == nil)
    #expect(stack.swipe() == .disabled)
    stack.expect("0 updated c", "0 updated c")
    #expect(stack.set("c", bar: .some(.hidden)) == nil)
    #expect(stack.machine.bar == .hidden)
    #expect(stack.set("b", bar: .some(.shown)) == nil)
    #expect(stack.machine.bar == .hidden)
    #expect(stack.set("c", bar: .some(nil)) == nil)
    #expect(stack.machine.bar == .hidden)
    stack.expect("0 updated c bar hidden", "0 updated b", "0 updated c")
    stack.pop()
    #expect(stack.machine.bar == .shown)
    stack.push("d", bar: .shown, .untilFinished)
    #expect(stack.set("d", bar: .some(.hidden)) == nil)
    #expect(stack.machine.bar == .shown)
    stack.finish()
    #expect(stack.machine.bar == .hidden)
  }

  @Test func duringASwipeOnlyDismissingIsPossible() {
    let stack = three()
    stack.swipe()
    stack.forget()
    #expect(stack.push("d") == .transitioning)
    #expect(stack.pop() == .transitioning)
    #expect(stack.root() == .transitioning)
    stack.expect()
    stack.dismiss()
    stack.expect(
      "0 cancelled c", "0 willDisappear b", "0 willAppear c", "0 didDisappear b", "0 didAppear c",
      "0 willDisappear c moving", "0 willAppear a", "0 didDisappear c moving", "0 didAppear a",
      "0 willDisappear a moving", "0 didDisappear a moving", "0 dismissed a")
  }

  @Test func withoutASwipeProgressFinishAndCancelAreRefused() {
    let stack = three()
    #expect(stack.progress(0.5) == .notTransitioning)
    #expect(stack.finish() == .notTransitioning)
    #expect(stack.cancel() == .notTransitioning)
    stack.expect()
  }

  @Test func theBarChangesOnceWhenThePageHasAppearedACancelledSwipeNeverChangesIt() {
    let stack = NavigationTimeline("a", bar: .hidden)
    stack.expect("0 willAppear a moving", "0 didAppear a moving bar hidden")
    stack.push("b")
    stack.expect(
      "0 willDisappear a", "0 willAppear b moving", "0 didDisappear a",
      "0 didAppear b moving bar shown")
    stack.swipe()
    #expect(stack.machine.bar == .shown)
    stack.cancel()
    #expect(stack.machine.bar == .shown)
    stack.forget()
    stack.swipe()
    stack.finish()
    stack.expect(
      "0 swiping b", "0 willDisappear b moving", "0 willAppear a", "0 finished b",
      "0 didDisappear b moving", "0 didAppear a bar hidden")
    #expect(stack.machine.bar == .hidden)
  }

  // MARK: Pages whose scopes close

  @Test func whenThePageOnTopClosesTheOneBelowAppears() {
    let stack = three()
    stack.close("c")
    stack.expect(
      "0 willDisappear c moving", "0 willAppear b", "0 didDisappear c moving", "0 didAppear b")
  }

  @Test func whenACoveredPageClosesThereIsNoEvent() {
    let stack = three()
    stack.close("b")
    stack.expect()
    #expect(stack.pages == ["a", "c"])
    stack.close("a")
    stack.expect()
    #expect(stack.swipe() == .root)
  }

  @Test func whenAllPagesCloseTheTopDisappearsAndTheStackEnds() {
    let stack = three()
    stack.close("a", "b", "c")
    stack.expect("0 willDisappear c moving", "0 didDisappear c moving", "0 dismissed c")
    #expect(stack.pages.isEmpty)
  }

  @Test func whenAPageOfASwipeClosesTheSwipeIsCancelledFirst() {
    let stack = three()
    stack.swipe()
    stack.forget()
    stack.close("a")
    stack.expect()
    stack.close("c")
    stack.expect(
      "0 cancelled c", "0 willDisappear b", "0 willAppear c", "0 didDisappear b", "0 didAppear c",
      "0 willDisappear c moving", "0 willAppear b", "0 didDisappear c moving", "0 didAppear b")
    let other = three()
    other.swipe()
    other.forget()
    other.close("b")
    other.expect(
      "0 cancelled c", "0 willDisappear b", "0 willAppear c", "0 didDisappear b", "0 didAppear c")
    #expect(other.finish() == .notTransitioning)
    #expect(other.pages == ["a", "c"])
  }
}
