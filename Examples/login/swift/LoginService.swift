import CountdownClient

/// A login with a code by SMS. countdownd decides how often codes may be sent and tried.
actor LoginService {
  enum Sending { case sent, refused, failed }
  enum Verdict: Equatable {
    case right
    case wrong(attemptsLeft: Int?)
    case refused(CountdownView.Reason)
  }

  private let daemon: CountdownClient
  private let sendSMS: @Sendable (_ phone: String, _ text: String) async throws -> Void
  /// The newest send and its code, by phone number. With several servers, use a database.
  private var codes: [String: (generation: Int, code: String)] = [:]

  init(
    daemon: CountdownClient,
    sendSMS: @escaping @Sendable (_ phone: String, _ text: String) async throws -> Void
  ) {
    self.daemon = daemon
    self.sendSMS = sendSMS
  }

  /// Returns the state of the button; nil if nothing has been sent.
  func status(_ phone: String) async throws -> CountdownView? {
    try await daemon.countdown(key(phone))
  }

  /// - Parameter token: identifies a request, and is the same when it is repeated.
  func send(
    _ phone: String, token: String
  ) async throws -> (result: Sending, button: CountdownView?) {
    let answer = try await daemon.startCountdown(key(phone), policy: "login", token: token)
    guard answer.accepted == true else { return (.refused, answer) }
    if answer.reason == .repeated { return (.sent, answer) }
    let digits = String(Int.random(in: 0..<1_000_000))
    let code = String(repeating: "0", count: 6 - digits.count) + digits
    codes[phone] = (answer.generation, code)
    do {
      try await sendSMS(phone, code)
      return (.sent, answer)
    } catch {
      do {
        return (
          .failed, try await daemon.refundCountdown(key(phone), generation: answer.generation)
        )
      } catch {
        guard error.isServer("STALE") else { throw error }
        // Sending took so long that a newer code was sent.
        return (.failed, try await status(phone))
      }
    }
  }

  func verify(_ phone: String, code: String) async throws -> Verdict {
    guard let (generation, right) = codes[phone] else { return .refused(.expired) }
    // Count the attempt before comparing the code, so that guessing is limited.
    do {
      let attempt = try await daemon.attemptCountdown(key(phone), generation: generation)
      guard attempt.accepted == true else { return .refused(attempt.reason ?? .expired) }
      guard code == right else { return .wrong(attemptsLeft: attempt.attemptsLeft) }
      // If two requests with the right code come at once, PASS accepts one of them.
      let pass = try await daemon.passCountdown(key(phone), generation: generation)
      guard pass.accepted == true else { return .refused(.expired) }
      guard pass.reason != .repeated else { return .refused(.passed) }
    } catch {
      guard error.isServer("STALE") || error.isServer("NOTFOUND") else { throw error }
      return .refused(.expired)
    }
    return .right
  }

  private func key(_ phone: String) -> String { "login:\(phone)" }
}

extension CountdownClientError {
  /// Whether the daemon replied with this error.
  func isServer(_ code: String) -> Bool {
    guard case .server(code, _) = self else { return false }
    return true
  }
}
