import Countdowns
import Testing

/// The attempts of a key over all its codes.
@Suite struct GuessTests {
  let desk = Desk()

  /// better-auth-8560: each resend gave new attempts, so guessing had no end
  @Test func aResendGivesNoNewGuesses() throws {
    let policy = SendPolicy.test(
      count: 1, validity: 60_000, attempts: 2, guesses: (3, 100_000))
    desk.subscribe(1, "countdown:a")
    try desk.at(0).start("a", policy: policy)
    for left in [2, 1] as [Int64] {
      #expect(try desk.attempt("a").view.quota?.guessesLeft == left)
    }
    // A refused attempt is no guess.
    #expect(try desk.attempt("a").attempt == .locked)
    #expect(try desk.at(10_000).start("a", policy: policy).view.quota?.guessesLeft == 1)
    let last = try desk.attempt("a")
    #expect(last.attempt == .accepted(isLast: false) && last.view.quota?.attemptsLeft == 1)
    #expect(last.view.quota?.guessesLeft == 0 && last.view.retryAfterMS == 90_000)
    #expect(try desk.attempt("a").attempt == .refused(.guesses))
    #expect(try desk.attempt("a").view.retryAfterMS == 90_000)
    #expect(try desk.send("a", policy: policy) == "refused guesses 90000")
    desk.hears(
      1, "0 a snapshot idle", "0 a started 1", "0 a locked 1", "1000 a ready 0",
      "10000 a started 1", "10000 a retimed 90 guesses",
      "10000 a refused 90 guesses")
    // Those of time 0 have left the window.
    #expect(try desk.at(100_000).send("a", policy: policy) == "accepted 1000")
    #expect(try desk.attempt("a").view.quota?.guessesLeft == 1)
    #expect(try desk.at(110_000).attempt("a").view.quota?.guessesLeft == 1)
  }

  @Test func aPassGivesBackTheGuessesAtItsOwnCode() throws {
    let policy = SendPolicy.test(count: 1, validity: 60_000, guesses: (9, 100_000))
    let sent = try [0, 1_000].map {
      try desk.at($0).start("a", policy: policy).view.generation
    }
    try desk.attempt("a", sent[0])
    try desk.attempt("a", sent[1])
    try desk.attempt("a", sent[1])
    #expect(try desk.attemptAny("a").view.quota?.guessesLeft == 5)
    let newest = try desk.at(2_000).start("a", policy: policy).view.generation
    #expect(try desk.attempt("a", newest).view.quota?.guessesLeft == 4)
    // A guess at all codes was at this one as well, but not at the one that was sent afterwards.
    #expect(try desk.pass("a", sent[1]).view.quota?.guessesLeft == 7)
    try desk.at(3_000).start("a", policy: policy)
    #expect(try desk.attempt("a").view.quota?.guessesLeft == 6)
    #expect(try desk.pass("a").view.quota?.guessesLeft == 7)
    #expect(try desk.pass("a").view.quota?.guessesLeft == 7)
  }

  @Test func thePassOfTheLastGuessEndsTheWaitForOne() throws {
    let policy = SendPolicy.test(count: 1, validity: 60_000, guesses: (2, 100_000))
    try desk.at(0).start("a", policy: policy)
    try desk.attempt("a")
    #expect(try desk.attempt("a").view.remainingMS == 100_000)
    #expect(try desk.pass("a").view.remainingMS == 1_000)
  }

  @Test func neitherCANCELNorREFUNDGivesGuessesBackButFORGIVEDoes() throws {
    let policy = SendPolicy.test(count: 1, validity: 60_000, guesses: (2, 100_000))
    let sent = try desk.at(0).start("a", policy: policy).view.generation
    for _ in 0..<2 { try desk.attempt("a") }
    #expect(try desk.refund("a", sent).view.retryAfterMS == 100_000)
    try desk.cancel("a")
    // Long after its code has expired, the key is known for its guesses.
    #expect(try desk.at(99_999).send("a", policy: policy) == "refused guesses 1")
    _ = try desk.with("a") {
      try desk.engine.forgiveCountdown(
        $0, withLimits: false, generation: nil, by: desk.client(1), at: desk.now)
    }
    #expect(try desk.start("a", policy: policy).view.quota?.guessesLeft == 2)
    try desk.cancel("a")
    desk.at(199_999)
    desk.expectEmpty()
  }

  @Test func guessesFollowTheKeyToAnotherPolicy() throws {
    func policy(_ limit: Int, _ milliseconds: Int64) -> SendPolicy {
      .test(count: 1, validity: 60_000, guesses: (limit, milliseconds))
    }
    try desk.at(0).start("a", policy: policy(5, 50_000))
    for _ in 0..<3 { try desk.attempt("a") }
    #expect(try desk.at(40_000).start("a", policy: policy(9, 90_000)).view.quota?.guessesLeft == 6)
    // What had left the window of the old policy does not count again.
    try desk.start("b", policy: policy(5, 10_000))
    try desk.attempt("b")
    #expect(try desk.at(50_000).start("b", policy: policy(9, 90_000)).view.quota?.guessesLeft == 9)
  }
}
