import Countdowns
import Testing

/// Every way from one state of a navigation stack to another, and every reason not to go it.
@Suite struct NavigationStackTests {
  /// a, b and c, c on top.
  private func three() -> NavigationTimeline {
    let stack = NavigationTimeline("a")
    stack.push("b")
    stack.push("c")
    stack.forget()
    return stack
  }

  @Test("A pushed page appears as first, an uncovered one as not first, with paired events")
  func pushAndPop() {
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

  @Test("The root can be neither popped nor swiped away")
  func root() {
    let stack = NavigationTimeline("a")
    stack.forget()
    #expect(stack.pop() == .root)
    #expect(stack.root() == .root)
    #expect(stack.swipe() == .root)
    stack.expect()
  }

  @Test("Popping to the root sends no events for the pages between")
  func popToRoot() {
    let stack = three()
    #expect(stack.root() == nil)
    stack.expect(
      "0 willDisappear c moving", "0 willAppear a", "0 didDisappear c moving", "0 didAppear a")
    #expect(stack.pages == ["a"])
  }

  @Test("Dismissing pops to the root first, then removes it")
  func dismissing() {
    let stack = three()
    stack.dismiss()
    stack.expect(
      "0 willDisappear c moving", "0 willAppear a", "0 didDisappear c moving", "0 didAppear a",
      "0 willDisappear a moving", "0 didDisappear a moving", "0 dismissed a")
    #expect(stack.pages.isEmpty)
  }

  @Test("A finished swipe pops the page on top")
  func finished() {
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

  @Test("A cancelled swipe restores everything, and events stay paired")
  func cancelled() {
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

  @Test("A swipe without progress is cancelled at its timeout; progress renews it")
  func timedOut() {
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

  @Test("A timeout that is noticed late carries its due time")
  func timedOutLate() {
    let stack = three()
    stack.swipe(timeout: 1_000)
    stack.forget()
    stack.late(at: 5_000)
    #expect(stack.machine.transition == nil)
    stack.at(5_000)
    #expect(stack.finish() == .notTransitioning)
  }

  @Test("The reasons against a swipe are checked in order")
  func reasons() {
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

  @Test("During a swipe only dismissing is possible")
  func transitioning() {
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

  @Test("Without a swipe, progress, finish and cancel are refused")
  func notTransitioning() {
    let stack = three()
    #expect(stack.progress(0.5) == .notTransitioning)
    #expect(stack.finish() == .notTransitioning)
    #expect(stack.cancel() == .notTransitioning)
    stack.expect()
  }

  @Test("The bar changes once, when the page has appeared; a cancelled swipe never changes it")
  func bar() {
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

  @Test("When the page on top closes, the one below appears")
  func topCloses() {
    let stack = three()
    stack.close("c")
    stack.expect(
      "0 willDisappear c moving", "0 willAppear b", "0 didDisappear c moving", "0 didAppear b")
  }

  @Test("When a covered page closes, there is no event")
  func coveredCloses() {
    let stack = three()
    stack.close("b")
    stack.expect()
    #expect(stack.pages == ["a", "c"])
    stack.close("a")
    stack.expect()
    #expect(stack.swipe() == .root)
  }

  @Test("When all pages close, the top disappears and the stack ends")
  func allClose() {
    let stack = three()
    stack.close("a", "b", "c")
    stack.expect("0 willDisappear c moving", "0 didDisappear c moving", "0 dismissed c")
    #expect(stack.pages.isEmpty)
  }

  @Test("When a page of a swipe closes, the swipe is cancelled first")
  func pageOfASwipeCloses() {
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
