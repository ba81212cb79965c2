import CountdownClient

/// A login with a code by SMS. countdownd decides how often codes may be sent and tried.
actor LoginService {
  enum Sending: Equatable {
    case sent
    case refused(Reason)
    case failed
  }
  enum Verdict: Equatable {
    case right
    case wrong(attemptsLeft: Int?)
    case refused(Reason)
  }

  private let daemon: Client
  private let sendSMS: @Sendable (_ phone: String, _ text: String) async throws -> Void
  /// The newest send and its code, by phone number. With several servers, use a database.
  private var codes: [String: (generation: Int, code: String)] = [:]

  init(
    daemon: Client,
    sendSMS: @escaping @Sendable (_ phone: String, _ text: String) async throws -> Void
  ) {
    self.daemon = daemon
    self.sendSMS = sendSMS
  }

  /// Returns the state of the button; nil if nothing has been sent.
  func status(_ phone: String) async throws -> CountdownView? {
    try await daemon.countdown.get(key(phone))
  }

  /// - Parameters:
  ///   - token: identifies a request, and is the same when it is repeated.
  ///   - address: the client's, which it cannot choose.
  func send(
    _ phone: String, token: String, from address: String
  ) async throws -> (result: Sending, button: CountdownView?) {
    let answer = try await daemon.countdown.start(
      key(phone), policy: "login", limits: ["ip:\(address)"], token: token)
    if case .refused(let reason, _) = answer.decision { return (.refused(reason), answer.view) }
    // The same press came twice, or an earlier reply was lost: who notes the send sends.
    if let (noted, _) = codes[phone], noted >= answer.generation { return (.sent, answer.view) }
    let digits = String(Int.random(in: 0..<1_000_000))
    let code = String(repeating: "0", count: 6 - digits.count) + digits
    codes[phone] = (answer.generation, code)
    do {
      try await sendSMS(phone, code)
      return (.sent, answer.view)
    } catch {
      do {
        let refund = try await daemon.countdown.refund(key(phone), generation: answer.generation)
        return (.failed, refund.view)
      } catch {
        guard error.isServer(.stale) else { throw error }
        // Sending took so long that a newer code was sent.
        return (.failed, try await status(phone))
      }
    }
  }

  func verify(_ phone: String, code: String) async throws -> Verdict {
    guard let (generation, right) = codes[phone] else { return .refused(.expired) }
    // Count the attempt before comparing the code, so that guessing is limited.
    do {
      let attempt = try await daemon.countdown.attempt(key(phone), generation: generation)
      if case .refused(let reason, _) = attempt.decision { return .refused(reason) }
      guard code == right else { return .wrong(attemptsLeft: attempt.attemptsLeft) }
      // If two requests with the right code come at once, PASS accepts one of them.
      switch try await daemon.countdown.pass(key(phone), generation: generation).decision {
      case .accepted: return .right
      case .repeated: return .refused(.passed)
      case .refused: return .refused(.expired)
      }
    } catch {
      guard error.isServer(.stale) || error.isServer(.notFound) else { throw error }
      return .refused(.expired)
    }
  }

  private func key(_ phone: String) -> String { "login:\(phone)" }
}

extension Error {
  /// Whether the daemon replied with this error.
  func isServer(_ code: ErrorCode) -> Bool {
    guard case .server(code, _) = self as? CountdownClientError else { return false }
    return true
  }
}
