import Testing

@testable import Gateway

@Suite struct RateLimitTests {
  private let start = ContinuousClock.now

  @Test
  func aBurstIsAllowedAndThenTheRate() {
    let limit = RateLimit(burst: 5, perSecond: 2)
    #expect(
      (0..<6).map { _ in limit.take("a", at: start) } == [true, true, true, true, true, false])
    #expect(limit.take("b", at: start))
    #expect(!limit.take("a", at: start + .milliseconds(499)))
    #expect(limit.take("a", at: start + .milliseconds(500)))
    #expect(!limit.take("a", at: start + .milliseconds(501)))
    #expect((0..<9).filter { _ in limit.take("a", at: start + .seconds(60)) }.count == 5)
  }

  @Test
  func keysAreForgottenButNoneWithoutTokens() {
    let limit = RateLimit(burst: 1, perSecond: 1)
    for key in 0..<5_000 { _ = limit.take("\(key)", at: start) }
    #expect(limit.keyCount == 5_000)
    #expect((0..<5_000).allSatisfy { !limit.take("\($0)", at: start) })
    for key in 0..<9_000 { _ = limit.take("later \(key)", at: start + .seconds(2)) }
    #expect(limit.keyCount == 9_000)
  }
}
