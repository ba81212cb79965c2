import Countdowns
import Testing

/// Every change of state of a page, and every reason to refuse one.
@Suite struct PageLoadTests {
  private let start = Instant(microseconds: 0)
  private let second = Instant(microseconds: 1_000_000)

  private func page(timeout: Interval? = nil) -> PageLoad { PageLoad(timeout: timeout, at: start) }

  /// Returns a page that has loaded and disappeared.
  private func covered(items: Int64 = 3) -> PageLoad {
    var page = page()
    _ = page.loaded(items: items)
    _ = page.disappear()
    return page
  }

  @Test func theFirstLoadIsAnimatedAndEndsInContentOrEmpty() {
    var page = page()
    #expect(page.state == .loading)
    #expect(page.isAnimated)
    let refusal = page.loaded(items: 5)
    #expect(refusal == nil)
    #expect(page.state == .content)
    #expect(page.items == 5)
    #expect(!page.isAnimated)
    var empty = PageLoad(timeout: nil, at: start)
    _ = empty.loaded(items: 0)
    #expect(empty.state == .empty)
    var unsaid = PageLoad(timeout: nil, at: start)
    _ = unsaid.loaded(items: nil)
    #expect(unsaid.state == .content)
  }

  @Test func aFailedFirstLoadShowsTheErrorPageAndCanBeRetried() {
    var page = page()
    let failed = page.failed(Array("offline".utf8))
    #expect(failed == nil)
    #expect(page.state == .error)
    #expect(page.message == Array("offline".utf8))
    let retried = page.retry(timeout: .seconds(1), at: start)
    #expect(retried == nil)
    #expect(page.state == .loading)
    #expect(page.isAnimated)
    #expect(page.message == nil)
    #expect(page.deadline == second)
    _ = page.loaded(items: 1)
    #expect(page.state == .content)
  }

  @Test(arguments: [0, 3])
  func aReturnRefreshesSilentlyAFailureKeepsTheContent(items: Int64) {
    var page = covered(items: items)
    let before = page.state
    let began = page.appear(.always, timeout: nil, at: start)
    #expect(began)
    #expect(page.state == .refreshing)
    #expect(!page.isAnimated)
    var other = page
    _ = page.failed(nil)
    #expect(page.state == before)
    #expect(page.items == items)
    _ = other.loaded(items: 3 - items)
    #expect(other.state == (items == 0 ? .content : .empty))
  }

  @Test func withREFRESHNeverAReturnShowsTheContent() {
    var page = covered()
    let began = page.appear(.never, timeout: .seconds(1), at: start)
    #expect(!began)
    #expect(page.state == .content)
    #expect(page.isVisible)
    #expect(page.deadline == nil)
  }

  @Test func appearingAgainOrWhileLoadingOrFailedStartsNoLoad() {
    var visible = page()
    _ = visible.loaded(items: 1)
    let again = visible.appear(.always, timeout: nil, at: start)
    #expect(!again)
    #expect(visible.state == .content)
    var loading = page()
    _ = loading.disappear()
    let back = loading.appear(.always, timeout: nil, at: start)
    #expect(!back)
    #expect(loading.state == .loading)
    var failed = page()
    _ = failed.failed(nil)
    _ = failed.disappear()
    let returned = failed.appear(.always, timeout: nil, at: start)
    #expect(!returned)
    #expect(failed.state == .error)
  }

  @Test func disappearingIsCountedOnceAndDoesNotEndALoad() {
    var page = page()
    let hidden = [page.disappear(), page.disappear()]
    #expect(hidden == [true, false])
    #expect(page.state == .loading)
    _ = page.loaded(items: 2)
    #expect(page.state == .content)
  }

  @Test(arguments: [true, false])
  func resultsWithoutALoadAreRefusedAndChangeNothing(hasFailed: Bool) {
    var page = page()
    if hasFailed { _ = page.failed(nil) } else { _ = page.loaded(items: 1) }
    let before = page
    let refusals = [page.loaded(items: 0), page.failed(nil)]
    #expect(refusals == [.notLoading, .notLoading])
    #expect(page == before)
  }

  @Test func anEmptyPageCanBeRetriedAnAnimatedLoadThatCanShowTheErrorPage() {
    var page = page()
    _ = page.loaded(items: 0, Array("nothing yet".utf8))
    let refusal = page.retry(timeout: nil, at: start)
    #expect(refusal == nil)
    #expect(page.state == .loading && page.isAnimated)
    #expect(page.items == nil && page.message == nil)
    _ = page.failed(nil)
    #expect(page.state == .error)
  }

  @Test(arguments: [nil, 0, 3] as [Int64?])
  func pullToRefreshKeepsWhatIsShownUnlessItSucceeds(items: Int64?) {
    var page = page()
    if let items { _ = page.loaded(items: items) } else { _ = page.failed(Array("x".utf8)) }
    let before = page
    let refusal = page.refresh(timeout: .seconds(1), at: start)
    #expect(refusal == nil)
    #expect(page.state == .refreshing && !page.isAnimated)
    #expect(page.deadline == second)
    #expect(page.items == before.items && page.message == before.message)
    var failed = page
    _ = failed.expire(at: second)
    #expect(failed.state == before.state && failed.message == before.message)
    _ = page.loaded(items: 1)
    #expect(page.state == .content && page.message == nil)
  }

  @Test func pullToRefreshIsRefusedDuringALoadAndChangesNothing() {
    var loading = page()
    let first = loading.refresh(timeout: .seconds(1), at: start)
    #expect(first == .loading)
    #expect(loading == page())
    _ = loading.loaded(items: 1)
    _ = loading.refresh(timeout: nil, at: start)
    let refreshing = loading
    let second = loading.refresh(timeout: .seconds(1), at: start)
    #expect(second == .loading)
    #expect(loading == refreshing)
  }

  @Test func aMessageStaysUntilTheNextLoadEndsARefreshThatFailsWithoutOneKeepsIt() {
    var page = page()
    _ = page.loaded(items: 0, [1])
    #expect(page.message == [1])
    _ = page.refresh(timeout: nil, at: start)
    #expect(page.message == [1])
    _ = page.failed(nil)
    #expect(page.message == [1])
    _ = page.refresh(timeout: nil, at: start)
    _ = page.failed([2])
    #expect(page.message == [2])
    _ = page.refresh(timeout: nil, at: start)
    _ = page.loaded(items: 1)
    #expect(page.message == nil)
  }

  @Test func withREFRESHEveryEachAppearanceLoadsAlsoWhenVisibleOrFailed() {
    var visible = page()
    _ = visible.loaded(items: 1)
    let again = visible.appear(.every, timeout: .seconds(1), at: start)
    #expect(again)
    #expect(visible.state == .refreshing && visible.deadline == second)
    let during = visible.appear(.every, timeout: nil, at: start)
    #expect(!during)
    #expect(visible.deadline == second)
    var failed = page()
    _ = failed.failed(nil)
    let retried = failed.appear(.every, timeout: nil, at: start)
    #expect(retried)
    #expect(failed.state == .loading && failed.isAnimated)
  }

  @Test func onlyAFailedLoadOrAnEmptyOneCanBeRetried() {
    var loading = page()
    let first = loading.retry(timeout: nil, at: start)
    #expect(first == .notFailed)
    var content = covered()
    let second = content.retry(timeout: nil, at: start)
    #expect(second == .notFailed)
    _ = content.appear(.always, timeout: nil, at: start)
    let third = content.retry(timeout: nil, at: start)
    #expect(third == .notFailed)
  }

  @Test func aTimeoutFailsTheLoadOnceNeverEarlyAndSilentlyForARefresh() {
    var page = page(timeout: .seconds(1))
    let early = page.expire(at: Instant(microseconds: 999_999))
    #expect(early == nil)
    #expect(page.nextExpiry == second)
    let due = page.expire(at: Instant(microseconds: 5_000_000))
    #expect(due == second)
    #expect(page.state == .error)
    #expect(page.nextExpiry == nil)
    let again = page.expire(at: Instant(microseconds: 9_000_000))
    #expect(again == nil)
    var refreshing = covered()
    _ = refreshing.appear(.always, timeout: .seconds(1), at: start)
    _ = refreshing.expire(at: second)
    #expect(refreshing.state == .content)
  }
}
